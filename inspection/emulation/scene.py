"""One workload at one shape: the judge's stage, and the buffers that a candidate works on."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from forewarp.core.values import Candidate, Signature, TensorSpec, Workload
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import Problem, copies, outputs_of
from forewarp.gpu_runner.worker.stage import ArmBuffers, Stage, fresh_seed
from forewarp.inspection.describing import describe
from forewarp.inspection.jobs import CheckJob

_ALIGN = 256


class ShapeOnly:
    """One workload at one shape without values: tensors by the plan's names, none for a module."""

    written_values: Sequence[int] = ()
    values: Sequence[Any] = ()

    def __init__(
        self, problem: Problem, workload: Workload, candidate: Candidate, signature: Signature | None = None
    ) -> None:
        """Raises `CandidateError`; only a launch plan needs the `signature`."""
        self.problem = problem
        self.plan = plans.ResolvedPlan(workload.name, "python", {}, (), {}, (), ())
        self.inputs: dict[str, torch.Tensor] = {}
        self.params: dict[str, torch.Tensor] = {}
        self.outputs: dict[str, torch.Tensor] = {}
        if signature is None or candidate.language == "python":
            return
        self.plan = plans.resolve(plans.parse(candidate), signature, candidate.tunables)
        names = [n for i, n in enumerate(self.plan.inputs) if str(i) not in signature.scalars]
        weights = {s.name: s for s in signature.params}
        self.inputs = {n: sized(s) for n, s in zip(names, signature.inputs, strict=True)}
        self.params = {local: sized(weights[key]) for local, key in self.plan.params.items()}
        self.outputs = {n: sized(s) for n, s in zip(self.plan.outputs, signature.outputs, strict=True)}


class Scene(ShapeOnly):
    """Everything about one workload, in memory shared with processes forked later; building it runs the reference.

    `values` are what a module is called with, `results` where outputs go. `masks` say which elements a sample wrote.
    """

    def __init__(self, job: CheckJob, workload: Workload, candidate: Candidate) -> None:
        self.workload = workload
        self.signature = describe(job, workload, flops=False)
        problem = load_problem(job, workload, fresh_seed())
        problem = replace(problem, state=self.signature.state, random=self.signature.random)
        super().__init__(problem, workload, candidate, self.signature)
        self.model = problem.model("cpu")
        drawn = problem.inputs(fresh_seed(), "cpu")
        results = outputs_of(self.model(*copies(drawn)))
        state = self.model.state_dict()
        masks = [torch.empty(r.shape, dtype=torch.bool) for r in results]
        tensors = [i for i, v in enumerate(drawn) if isinstance(v, torch.Tensor)]
        shared = _Shared([*(drawn[i] for i in tensors), *results, *state.values(), *masks])
        self.values = [shared.like(v) if isinstance(v, torch.Tensor) else v for v in drawn]
        self.results = [shared.like(r) for r in results]
        self.weights = {key: shared.like(t).copy_(t) for key, t in state.items()}
        self.written_values = [tensors[i] for i in self.signature.written]
        self.masks: dict[str, torch.Tensor] = {}
        if candidate.language != "python":
            named = zip(self.plan.inputs, self.values, strict=True)
            self.inputs = {name: v for name, v in named if isinstance(v, torch.Tensor)}
            self.params = {local: self.weights[key] for local, key in self.plan.params.items()}
            self.outputs = dict(zip(self.plan.outputs, self.results, strict=True))
            written = zip(self.plan.outputs, masks, strict=True)
            self.masks = {name: shared.like(mask) for name, mask in written if name not in self.plan.aliases}
        self.stage = Stage(
            problem,
            self.model,
            ArmBuffers([self.values], self.results),
            job.task.tolerance,
            written=self.signature.written,
            aliases=self.signature.aliases if candidate.language != "python" else None,
            perturb=job.task.perturb,
        )
        self.stage.allow_tf32 = job.task.allow_tf32

    @property
    def can_be_sampled(self) -> bool:
        """True if outputs that only some programs wrote can be compared: no later launch reads what is missing."""
        return len(self.plan.launches) == 1 and not self.signature.written

    def fill_unwritten(self) -> None:
        """After a sample, put the reference's own results where no program that ran has written."""
        expected = outputs_of(self.model(*copies(self.values)))
        for name, result, right in zip(self.plan.outputs, self.results, expected, strict=True):
            result.copy_(torch.where(self.masks[name], result, right))


class _Shared:
    """Memory that is shared with processes forked later, with room for contiguous copies of tensors."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        size = sum(_rounded(t.numel() * t.element_size()) for t in tensors)
        self._block = torch.frombuffer(mmap.mmap(-1, max(_ALIGN, size)), dtype=torch.uint8)
        self._used = 0

    def like(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a contiguous tensor of the same shape and type, filled with zeros."""
        size = tensor.numel() * tensor.element_size()
        piece = self._block[self._used : self._used + size]
        self._used += _rounded(size)
        return piece.view(tensor.dtype).view(tensor.shape)


def _rounded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


def sized(spec: TensorSpec) -> torch.Tensor:
    """Return a tensor of that shape without elements."""
    return torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta")
