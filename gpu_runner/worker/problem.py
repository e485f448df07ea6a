"""The reference side of a task: load it, draw inputs, work out expected outputs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

import torch

from forewarp.core.values import Signature, TensorSpec, Workload
from forewarp.gpu_runner.worker import operations


def load_module(source: str, name: str, constants: Mapping[str, Any]) -> ModuleType:
    """Run a KernelBench file as a module and set a workload's constants in it."""
    module = ModuleType(name)
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)
    unknown = sorted(k for k in constants if k not in module.__dict__)
    if unknown:
        raise ValueError(f"the workload sets {unknown}, which the reference does not define")
    module.__dict__.update(constants)
    return module


@dataclass(frozen=True, slots=True)
class Problem:
    """A loaded reference for one workload: here a KernelBench file, in `kernelbot` a KernelBot task."""

    module: ModuleType
    workload: str
    weight_seed: int
    constants: Mapping[str, Any]

    @classmethod
    def load(cls, reference: str, workload: Workload, weight_seed: int) -> Problem:
        """Load a KernelBench file with the workload's constants."""
        module = load_module(reference, "reference", workload.constants)
        return cls(module, workload.name, weight_seed, workload.constants)

    @staticmethod
    def of_job(job: Mapping[str, Any], workload: Workload, weight_seed: int) -> Problem:
        """Load the reference that a job carries: `reference`, and for KernelBot `format`, `files`, `target_kind`."""
        if job.get("format", "kernelbench") == "kernelbench":
            return Problem.load(job["reference"], workload, weight_seed)
        # Imported late, because it builds on this module.
        from forewarp.gpu_runner.worker import kernelbot

        # The type checker knows this module by two names, because `src/forewarp` links to it.
        device = job["target_kind"]
        return cast("Problem", kernelbot.load(job["reference"], job["files"], workload, weight_seed, device))

    def model(self, device: str) -> torch.nn.Module:
        """Return the reference model with the weights that `weight_seed` gives."""
        return build_model(self.module, "Model", self.module, device, self.weight_seed)

    def inputs(self, seed: int, device: str) -> list[Any]:
        """Return freshly drawn values, tensors and numbers, that the model is called with."""
        torch.manual_seed(seed)
        with torch.device(device):
            values = list(self.module.get_inputs())
        return [v.to(device) if isinstance(v, torch.Tensor) else v for v in values]

    def bind(self, module: ModuleType, device: str, weights: Mapping[str, torch.Tensor]) -> Callable[..., Any]:
        """Return a candidate's module as a function of a slot's values; raises TypeError if it has no `ModelNew`.

        `weights` are the reference's by `state_dict` key; a model with the same keys takes them, any other keeps what
        `weight_seed` gives.
        """
        if not hasattr(module, "ModelNew"):
            raise TypeError("the module defines no class ModelNew")
        # A module that repeats the reference's constants follows the workload too.
        module.__dict__.update({k: v for k, v in self.constants.items() if k in module.__dict__})
        model = build_model(module, "ModelNew", self.module, device, self.weight_seed)
        if model.state_dict().keys() == weights.keys():
            model.load_state_dict(weights)
        return model

    def init_numbers(self) -> list[Any]:
        """Return the values of `get_init_inputs()`."""
        return list(self.module.get_init_inputs())

    def checker(self) -> Callable[[list[Any], list[torch.Tensor]], str] | None:
        """Return the task's own check, or None where the oracle decides.

        The check takes a slot's values as they were before the call, and the candidate's outputs; it changes neither.
        It returns "" where all is well, else the task's message.
        """
        return None


def build_model(module: ModuleType, name: str, reference: ModuleType, device: str, weight_seed: int) -> torch.nn.Module:
    """Instantiate `module.<name>` with the reference's init inputs, on `device`, after seeding."""
    torch.manual_seed(weight_seed)
    with torch.device(device):
        model: torch.nn.Module = getattr(module, name)(*reference.get_init_inputs())
    return model.to(device).eval()


def outputs_of(result: Any) -> list[torch.Tensor]:
    """Return a forward's result as a list of plain tensors; raises TypeError for anything else."""
    values = list(result) if isinstance(result, tuple | list) else [result]
    for value in values:
        if type(value) is not torch.Tensor and type(value) is not torch.nn.Parameter:
            raise TypeError(f"forward returned {type(value).__name__}, not a tensor")
    return values


def oracle(model: torch.nn.Module, inputs: Sequence[Any]) -> tuple[list[torch.Tensor], str]:
    """Return the expected outputs and how they were made: in fp64, else in the highest fp32 precision.

    TF32 is off either way. The inputs stay as they are, even where the reference writes to them.
    """
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    try:
        return outputs_of(copy.deepcopy(model).double()(*copies(inputs, torch.float64))), "fp64"
    except Exception:  # a reference may refuse fp64 in any way; what is really wrong with it shows in the next line
        torch.set_float32_matmul_precision("highest")
        return outputs_of(model(*copies(inputs))), "fp32 highest"


def copies(values: Sequence[Any], floats: torch.dtype | None = None) -> list[Any]:
    """Copy the tensors among the values, those of floating point as `floats`, because a reference may write to them."""
    return [
        v.to(floats if floats and v.is_floating_point() else v.dtype, copy=True) if isinstance(v, torch.Tensor) else v
        for v in values
    ]


def tensors_of(values: Sequence[Any]) -> list[torch.Tensor]:
    """Return the tensors among the values, in order."""
    return [v for v in values if isinstance(v, torch.Tensor)]


def _specs(tensors: Sequence[torch.Tensor]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(str(i), tuple(t.shape), dtype_name(t)) for i, t in enumerate(tensors))


def dtype_name(tensor: torch.Tensor) -> str:
    """Return torch's dtype name without the prefix."""
    return str(tensor.dtype).removeprefix("torch.")


def _numbers(values: Sequence[Any]) -> dict[str, float]:
    return {str(i): v for i, v in enumerate(values) if isinstance(v, int | float)}


@torch.no_grad()
def describe(reference: str, workload: Workload) -> Signature:
    """Work out the signature of a KernelBench file; see `describe_job`."""
    return describe_job({"reference": reference}, workload)


@torch.no_grad()
def describe_job(job: Mapping[str, Any], workload: Workload, *, flops: bool = True) -> Signature:
    """Work out a task's signature on meta tensors; on the device where the reference needs values.

    It needs values, too, where it writes to its inputs: then the bytes that it reads are found by trying. Where torch
    sees no GPU for a CUDA target, values are in main memory; raises ValueError where they take more than 2 GiB.
    Counting `flops` takes seconds the first time in a process; without, they are None.
    """
    device = "cuda" if job.get("target_kind") == "cuda" else "cpu"

    def with_values() -> Signature:
        if device == "cuda" and not torch.cuda.is_available():
            # Imported late, because it builds on this module.
            from forewarp.gpu_runner.tracing.reference import describe_without_device

            return describe_without_device(_describe_on, job, workload)
        return _describe_on(Problem.of_job(job, workload, 0), device, flops=flops)

    if job.get("format", "kernelbench") != "kernelbench":
        return with_values()
    try:
        signature = _describe_on(Problem.of_job(job, workload, 0), "meta", flops=flops)
    except Exception:
        return with_values()
    return with_values() if signature.written else signature


def _describe_on(problem: Problem, device: str, *, flops: bool = True) -> Signature:
    model = problem.model(device)
    values = problem.inputs(0, device)
    tensors, old, versions = tensors_of(values), copies(values), [t._version for t in tensors_of(values)]
    counted, needed = None, 0.0
    if flops:
        with _flop_counter() as counter, operations.Seen() as seen:
            outputs = outputs_of(model(*values))
        counted = float(counter.get_total_flops()) or None
        needed = (counted or 0.0) if seen.all_needed else 0.0
    else:
        outputs = outputs_of(model(*values))
    written = tuple(
        i
        for i, (t, o, v) in enumerate(zip(tensors, tensors_of(old), versions, strict=True))
        if t._version != v or (not t.is_meta and not _equal(t, o))
    )
    aliases = {str(o): i for o, output in enumerate(outputs) for i in written if _same(output, tensors[i])}
    state = model.state_dict()
    moved = [*state.values(), *(o for i, o in enumerate(outputs) if str(i) not in aliases), *tensors]
    if written and device != "meta":
        moved += [tensors[i] for i in _read_and_written(model, old, [*outputs, *tensors], written)]
    return Signature(
        workload=problem.workload,
        inputs=_specs(tensors),
        scalars=_numbers(values),
        init=_numbers(problem.init_numbers()),
        params=tuple(TensorSpec(k, tuple(v.shape), dtype_name(v)) for k, v in state.items()),
        outputs=_specs(outputs),
        flops=counted,
        bytes_moved=sum(t.numel() * t.element_size() for t in moved),
        written=written,
        aliases=aliases,
        needed_flops=needed,
    )


def _flop_counter() -> Any:
    from torch.utils import flop_counter

    # Its first call would import torch's compiler, which takes seconds, to have itself left uncompiled.
    mode: Any = getattr(flop_counter, "_FlopCounterMode", None)
    raw = getattr(getattr(mode, "__torch_dispatch__", None), "__wrapped__", None)
    if raw is not None:
        vars(raw).setdefault("__dynamo_disable", raw)
    return flop_counter.FlopCounterMode(display=False)


def _read_and_written(
    model: torch.nn.Module, values: Sequence[Any], results: Sequence[torch.Tensor], written: Sequence[int]
) -> list[int]:
    """Return which of the written inputs the reference also reads: what it computes changes with their contents.

    An input is taken as not read where this cannot be told, so that a bound on the time stays a bound.
    """

    def same_with(change: int | None) -> bool:
        again = copies(values)
        tensors = tensors_of(again)
        if change is not None:
            other = tensors[change]
            other.fill_(1) if _equal(other, torch.zeros_like(other)) else other.zero_()
        outputs = outputs_of(model(*again))
        return all(_equal(a, b) for a, b in zip([*outputs, *tensors], results, strict=True))

    if not same_with(None):  # a reference that never computes the same twice
        return []
    return [i for i in written if not same_with(i)]


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Compare bytes, so that NaN equals itself."""
    first, second = (t.contiguous().view(-1).view(torch.uint8) for t in (one, other))
    return torch.equal(first, second)


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors are the same elements of the same memory, in the same order."""
    if (one.shape, one.stride(), one.dtype) != (other.shape, other.stride(), other.dtype):
        return False
    return one is other or (not one.is_meta and one.data_ptr() == other.data_ptr())
