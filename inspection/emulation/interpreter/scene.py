"""One workload at one shape: the judge's stage, and the buffers that it shares with the confined process."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from forewarp.core import serde
from forewarp.core.values import Candidate, Signature, TensorSpec, Tolerance, Workload
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import Problem, copies, outputs_of
from forewarp.gpu_runner.worker.stage import ArmBuffers, Stage, fresh_seed
from forewarp.inspection.describing import describe

_ALIGN = 256


class Shared:
    """Memory that processes forked from here on share, given out piece by piece."""

    def __init__(self, size: int) -> None:
        self._block = torch.frombuffer(mmap.mmap(-1, max(_ALIGN, size)), dtype=torch.uint8)
        self._used = 0

    @staticmethod
    def room(tensors: Sequence[torch.Tensor]) -> int:
        """Return how many bytes tensors take."""
        return sum(_rounded(t.numel() * t.element_size()) for t in tensors)

    def like(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a contiguous tensor of the same shape and type, filled with zeros."""
        size = tensor.numel() * tensor.element_size()
        piece = self._block[self._used : self._used + size]
        self._used += _rounded(size)
        return piece.view(tensor.dtype).view(tensor.shape)


def _rounded(size: int) -> int:
    return -(-size // _ALIGN) * _ALIGN


class Scene:
    """Everything about one workload; building it runs the reference, and raises what that raises.

    `inputs`, `params` and `outputs` are shared tensors by the plan's names, empty for a module; `values` are what a
    module is called with, and `results` where its outputs go. `masks` say, after a sample of programs, which elements
    of the outputs have been written. `written_values` are the positions, among the values, of what the reference
    writes to.
    """

    def __init__(self, job: Mapping[str, Any], workload: Workload, candidate: Candidate) -> None:
        self.workload = workload
        self.signature = describe(job, workload, flops=False)
        loaded = load_problem(job, workload, fresh_seed())
        self.problem = loaded.described(self.signature.state, random=self.signature.random)
        self.model = self.problem.model("cpu")
        drawn = self.problem.inputs(fresh_seed(), "cpu")
        results = [r.contiguous() for r in outputs_of(self.model(*copies(drawn)))]
        state = self.model.state_dict()
        tensors = [v for v in drawn if isinstance(v, torch.Tensor)]
        masks = [torch.empty(r.shape, dtype=torch.bool) for r in results]
        shared = Shared(Shared.room([*tensors, *results, *state.values(), *masks]))
        self.values = [shared.like(v) if isinstance(v, torch.Tensor) else v for v in drawn]
        self.results = [shared.like(r) for r in results]
        self.weights = {key: shared.like(t).copy_(t) for key, t in state.items()}
        self._masks = [shared.like(m) for m in masks]
        positions = [i for i, v in enumerate(drawn) if isinstance(v, torch.Tensor)]
        self.written_values = [positions[i] for i in self.signature.written]
        self.plan = _no_plan(workload)
        self.inputs: dict[str, torch.Tensor] = {}
        self.params: dict[str, torch.Tensor] = {}
        self.outputs: dict[str, torch.Tensor] = {}
        self.masks: dict[str, torch.Tensor] = {}
        if candidate.language == "triton":
            self._bind(candidate)
        tolerance = serde.from_data(Tolerance, job["tolerance"]) if job["tolerance"] else None
        self.stage = Stage(
            self.problem,
            self.model,
            ArmBuffers([self.values], self.results),
            tolerance,
            written=self.signature.written,
            aliases=self.signature.aliases if candidate.language == "triton" else None,
            perturb=bool(job["perturb"]),
        )
        self.stage.allow_tf32 = bool(job.get("allow_tf32"))

    def _bind(self, candidate: Candidate) -> None:
        self.plan = plans.resolve(plans.parse(candidate), self.signature, candidate.tunables)
        self.inputs = {
            name: value
            for name, value in zip(self.plan.inputs, self.values, strict=True)
            if isinstance(value, torch.Tensor)
        }
        self.params = {local: self.weights[key] for local, key in self.plan.params.items()}
        self.outputs = dict(zip(self.plan.outputs, self.results, strict=True))
        names = zip(self.plan.outputs, self._masks, strict=True)
        self.masks = {name: mask for name, mask in names if name not in self.plan.aliases}

    def fill_unwritten(self) -> None:
        """After a sample, put the reference's own results where no program that ran has written."""
        expected = outputs_of(self.model(*copies(self.values)))
        for name, result, right in zip(self.plan.outputs, self.results, expected, strict=True):
            result.copy_(torch.where(self.masks[name], result, right))


@dataclass(frozen=True, slots=True)
class ShapeOnly:
    """One workload at one shape without any values, in the place of a `Scene`; a module has an empty plan."""

    problem: Problem
    plan: plans.ResolvedPlan
    inputs: Mapping[str, torch.Tensor]
    params: Mapping[str, torch.Tensor]
    outputs: Mapping[str, torch.Tensor]
    written_values: tuple[int, ...] = ()
    values: tuple[Any, ...] = ()

    @classmethod
    def of_module(cls, problem: Problem, workload: Workload) -> ShapeOnly:
        """Return what a module needs."""
        return cls(problem, _no_plan(workload), {}, {}, {})

    @classmethod
    def of_plan(cls, problem: Problem, signature: Signature, candidate: Candidate) -> ShapeOnly:
        """Return what a launch plan needs; raises `CandidateError`."""
        plan = plans.resolve(plans.parse(candidate), signature, candidate.tunables)
        names = [n for i, n in enumerate(plan.inputs) if str(i) not in signature.scalars]
        weights = {s.name: s for s in signature.params}
        return cls(
            problem,
            plan,
            {n: sized(s) for n, s in zip(names, signature.inputs, strict=True)},
            {local: sized(weights[key]) for local, key in plan.params.items()},
            {n: sized(s) for n, s in zip(plan.outputs, signature.outputs, strict=True)},
        )


def sized(spec: TensorSpec) -> torch.Tensor:
    """Return a tensor of that shape without elements."""
    return torch.empty(spec.shape, dtype=getattr(torch, spec.dtype), device="meta")


def _no_plan(workload: Workload) -> plans.ResolvedPlan:
    return plans.ResolvedPlan(workload.name, "python", {}, (), {}, (), ())
