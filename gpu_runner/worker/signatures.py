"""Signatures of references: what they take and give, what they change, and the work that they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from forewarp.core.values import Signature, TensorSpec, Workload
from forewarp.gpu_runner.worker import operations
from forewarp.gpu_runner.worker.check import same_bytes
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.problem import Problem, copies, dtype_name, outputs_of, plain_outputs, tensors_of
from forewarp.gpu_runner.worker.requests import TaskJob
from forewarp.gpu_runner.worker.state import held_by


def _specs(tensors: Sequence[torch.Tensor]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(str(i), tuple(t.shape), dtype_name(t)) for i, t in enumerate(tensors))


def _numbers(values: Sequence[Any]) -> dict[str, float]:
    return {str(i): v for i, v in enumerate(values) if isinstance(v, int | float)}


@torch.no_grad()
def describe_job(
    job: TaskJob, workload: Workload, *, flops: bool = True, without_device: Callable[..., Signature] | None = None
) -> Signature:
    """Work out a task's signature on meta tensors; on the device where the reference needs values, or writes to inputs.

    Where torch sees no GPU for a CUDA target, `without_device` describes, see `inspection.describing`. Raises what the
    reference raises, or `ReferenceFailed`. Without `flops`, operations are not counted.
    """

    def with_values() -> Signature:
        if job.device == "cuda" and without_device is not None and not torch.cuda.is_available():
            return without_device(_describe_on, job, workload, flops=flops)
        return _describe_on(load_problem(job, workload, 0), job.device, flops=flops)

    if job.task.format != "kernelbench":
        return with_values()
    problem = load_problem(job, workload, 0)
    try:
        signature = _describe_on(problem, "meta", flops=flops)
    except Exception:
        return with_values()
    return with_values() if signature.written else signature


@torch.no_grad()
def describe_shapes(job: TaskJob, workload: Workload) -> Signature:
    """Work out a signature on meta tensors alone; raises what the reference raises where it needs values."""
    return _describe_on(load_problem(job, workload, 0), "meta", flops=False)


def _describe_on(
    problem: Problem, device: str, *, flops: bool = True, real: bool = True, values: list[Any] | None = None
) -> Signature:
    """Describe by running the reference once, on `values` if given; without `real`, no tensor has elements."""
    real = real and device != "meta"
    model = problem.model(device)
    values = problem.inputs(0, device) if values is None else values
    held = held_by(model)
    tensors, old = tensors_of(values), copies(values) if real else []
    before = copies(list(held.values())) if real else []
    versions = [t._version for t in (*tensors, *held.values())]
    with operations.Seen(sizes=flops) as seen, operations.FusedAttention(seen):
        result = model(*values)
    kinds = {torch.Tensor, torch.nn.Parameter} | ({type(t) for t in tensors} if not real else set())
    outputs = plain_outputs(result, tuple(kinds))
    counted = sum(o.flops * o.times for o in seen.operations) or None
    written = tuple(
        i
        for i, (t, v) in enumerate(zip(tensors, versions, strict=False))
        if t._version != v or (real and not same_bytes(t, tensors_of(old)[i]))
    )
    if not outputs and not written:
        raise ValueError("forward returns nothing to compare: no tensor, no number, and no input is changed")
    aliases = {str(o): i for o, output in enumerate(outputs) for i in written if _same(output, tensors[i])}
    state = _changed(model, held, versions[len(tensors) :], before, seen.statistics)
    random = bool(seen.random)
    if random and real and not (state or written):
        # Numbers that no output depends on, such as initial weights that are overwritten, do not count.
        random = not all(map(same_bytes, outputs_of(model(*copies(old))), outputs))
    weights = model.state_dict()
    backward = problem.backward_on(device)
    moved = [*weights.values(), *(o for i, o in enumerate(outputs) if str(i) not in aliases), *tensors]
    if problem.gradients == "only" and backward is not None:
        needed = [weights[n] if isinstance(n, str) else tensors[n] for n in problem.known.get("needed", ())]
        moved = [*needed, *outputs, *tensors[len(tensors) - len(backward.upstream) :]]
    if written and real:
        moved += [tensors[i] for i in _read_and_written(model, old, [*outputs, *tensors], written)]
    return Signature(
        workload=problem.workload,
        inputs=_specs(tensors),
        scalars=_numbers(values),
        init=_numbers(problem.init_numbers()),
        params=tuple(TensorSpec(k, tuple(v.shape), dtype_name(v)) for k, v in weights.items()),
        outputs=_specs(outputs),
        flops=counted,
        bytes_moved=sum(t.numel() * t.element_size() for t in moved),
        written=written,
        aliases=aliases,
        needed_flops=(counted or 0.0) if seen.all_needed and backward is None else 0.0,
        state=state,
        random=random,
        operations=seen.operations,
        backward=backward,
    )


def _changed(
    model: torch.nn.Module,
    held: Mapping[str, torch.Tensor],
    versions: Sequence[int],
    before: Sequence[torch.Tensor],
    statistics: Sequence[torch.Tensor],
) -> tuple[str, ...]:
    """Return the names of parameters and buffers that differ from `before` (empty on meta), or were replaced."""
    now = held_by(model)
    changed: list[str] = []
    for i, (name, tensor) in enumerate(held.items()):
        after = now.get(name)
        touched = after is not tensor or tensor._version != versions[i] or any(tensor is s for s in statistics)
        if touched or (before and not same_bytes(tensor, before[i])):
            changed.append(name)
    return tuple(changed)


def _read_and_written(
    model: torch.nn.Module, values: Sequence[Any], results: Sequence[torch.Tensor], written: Sequence[int]
) -> list[int]:
    """Return which of the written inputs the reference surely also reads, so that a bound stays a bound."""

    def same_with(change: int | None) -> bool:
        again = copies(values)
        tensors = tensors_of(again)
        if change is not None:
            other = tensors[change]
            other.fill_(1) if same_bytes(other, torch.zeros_like(other)) else other.zero_()
        outputs = outputs_of(model(*again))
        return all(same_bytes(a, b) for a, b in zip([*outputs, *tensors], results, strict=True))

    if not same_with(None):  # a reference that never computes the same twice
        return []
    return [i for i in written if not same_with(i)]


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors are the same elements of the same memory, in the same order."""
    if (one.shape, one.stride(), one.dtype) != (other.shape, other.stride(), other.dtype):
        return False
    return one is other or (not one.is_meta and one.data_ptr() == other.data_ptr())
