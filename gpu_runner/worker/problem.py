"""The reference side of a task: load it, draw inputs, work out expected outputs."""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any, cast

import torch

from forewarp.core.values import Mode, Signature, TensorSpec, Workload
from forewarp.gpu_runner.worker import activity, numerics, operations
from forewarp.gpu_runner.worker.captured import Call
from forewarp.gpu_runner.worker.nest import Build, check_inputs, flatten, is_flat, leaves
from forewarp.gpu_runner.worker.state import held_by
from forewarp.gpu_runner.worker.tracebacks import told


class ReferenceFailed(Exception):
    """The reference, not the candidate, raised, ran out of memory or has no inputs."""


@contextlib.contextmanager
def running_reference(doing: str) -> Generator[None]:
    """Raise whatever the reference raises as `ReferenceFailed` that says what it was doing; nothing else may run here.

    An error of the device is left as it is where its context has had a candidate's code in it, too: such errors stick.
    """
    try:
        with activity.running_reference():
            yield
    except ReferenceFailed:
        raise
    except (torch.OutOfMemoryError, MemoryError) as e:
        raise ReferenceFailed(f"{doing} ran out of memory: {_first_line(e)}") from e
    except (Exception, SystemExit) as e:
        if isinstance(e, RuntimeError) and "CUDA error" in str(e):
            raise
        memory = "can't allocate memory" in str(e)
        what = "ran out of memory" if memory else f"raised {type(e).__name__}"
        raise ReferenceFailed(f"{doing} {what}: {_first_line(e)}\n{told(e, 4)}") from e


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "no message")


def _load(job: Mapping[str, Any], workload: Workload, weight_seed: int) -> Problem:
    if job.get("format", "kernelbench") == "kernelbench":
        loaded = Problem.load(job["reference"], workload, weight_seed, job.get("mode", "train"))
        return replace(loaded, call=Call.of_job(job, workload.name))
    # Imported late, because it builds on this module.
    from forewarp.gpu_runner.worker import kernelbot

    # The type checker knows this module by two names, because `src/forewarp` links to it.
    device = job["target_kind"]
    return cast("Problem", kernelbot.load(job["reference"], job["files"], workload, weight_seed, device))


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
    """A loaded reference for one workload: here a KernelBench file, in `kernelbot` a KernelBot task.

    The values of a slot are the tensors and numbers of `get_inputs()` in order of appearance (see `nest`). `state` and
    `random` are what the workload's signature says of the reference, where a job has signatures. With a captured
    `call`, that is drawn from instead of `get_inputs()`. `known` keeps what is found out once.
    """

    module: ModuleType
    workload: str
    weight_seed: int
    constants: Mapping[str, Any]
    mode: Mode = "train"
    state: tuple[str, ...] = ()
    random: bool = False
    call: Call | None = None
    known: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)

    @classmethod
    def load(cls, reference: str, workload: Workload, weight_seed: int, mode: Mode = "train") -> Problem:
        """Load a KernelBench file with the workload's constants."""
        module = load_module(reference, "reference", workload.constants)
        return cls(module, workload.name, weight_seed, workload.constants, mode)

    @staticmethod
    def of_job(job: Mapping[str, Any], workload: Workload, weight_seed: int) -> Problem:
        """Load the reference that a job carries: `reference`, `mode`; for KernelBot `format`, `files`, `target_kind`.

        Where the job has `signatures`, the problem knows what the one of its workload says.
        """
        try:
            loaded = _load(job, workload, weight_seed)
        except ModuleNotFoundError as e:
            raise ReferenceFailed(
                f"the reference imports the package {e.name}, which {sys.executable} does not have; install it there, "
                "or pass --python PATH of an environment that has it"
            ) from e
        said = next((s for s in job.get("signatures", ()) if s["workload"] == workload.name), None)
        return loaded if said is None else loaded.described(said.get("state", ()), random=said.get("random", False))

    def described(self, state: Sequence[str], *, random: bool) -> Problem:
        """Return the same problem with what is known of its reference's calls."""
        return replace(self, state=tuple(state), random=random)

    def model(self, device: str) -> torch.nn.Module:
        """Return the reference model with the weights that `weight_seed` gives; it is called with a slot's values."""
        model = build_model(self.module, "Model", self.module, device, self.weight_seed, self.mode)
        build = self._first(device)[1]
        if build is not None:
            model.register_forward_pre_hook(_Rebuilt(build))
        return model

    def inputs(self, seed: int, device: str) -> list[Any]:
        """Return freshly drawn values, tensors and numbers, that the model is called with.

        Raises TypeError for inputs that cannot be handed to a kernel, ValueError if more than tensors' elements differs
        between draws.
        """
        first, build = self._first(device)
        data = self._draw(seed, device)
        values = data if build is None and is_flat(data) else flatten(data)[0]
        if shapes_of(first) != shapes_of(values):
            raise ValueError(
                f"get_inputs() gives {shapes_of(values)} at one call and {shapes_of(first)} at another; shapes and "
                "numbers must follow from the module's constants alone"
            )
        return [v.to(device) if isinstance(v, torch.Tensor) else v for v in values]

    def _draw(self, seed: int, device: str) -> list[Any]:
        if self.call is not None:
            return self.call.draw(seed, device)
        torch.manual_seed(seed)
        with torch.device(device):
            data = self.module.get_inputs()
        if not isinstance(data, tuple | list):
            raise TypeError(
                f"get_inputs() returned a {type(data).__name__}; it must return a list or a tuple of what forward takes"
            )
        check_inputs(cast("list[Any]", data))
        return list(cast("list[Any]", data))

    def _first(self, device: str) -> tuple[list[Any], Build | None]:
        """Return the values of one draw, tensors without elements, and their nest; None where there is none."""
        if "first" not in self.known:
            # In a CPU worker the first operation without elements would load half of torch, which takes longer.
            data = self._draw(0, device) if device == "cpu" else self._shapes(device)
            values, build = flatten(data)
            values = [v.to("meta") if isinstance(v, torch.Tensor) else v for v in values]
            self.known["first"] = values, None if is_flat(data) else build
        return self.known["first"]

    def _shapes(self, device: str) -> list[Any]:
        try:
            return self._draw(0, "meta")
        except Exception:  # whatever get_inputs() needs elements for; what is wrong with it shows in the next line
            return self._draw(0, device)

    def bind(self, module: ModuleType, device: str, weights: Mapping[str, torch.Tensor]) -> Callable[..., Any]:
        """Return a candidate's module as a function of a slot's values; raises TypeError if it has no `ModelNew`.

        `weights` are the reference's by `state_dict` key; a model with the same keys takes them, any other keeps what
        `weight_seed` gives.
        """
        if not hasattr(module, "ModelNew"):
            raise TypeError("the module defines no class ModelNew")
        # A module that repeats the reference's constants follows the workload too.
        module.__dict__.update({k: v for k, v in self.constants.items() if k in module.__dict__})
        model = build_model(module, "ModelNew", self.module, device, self.weight_seed, self.mode)
        if model.state_dict().keys() == weights.keys():
            model.load_state_dict(weights)
        build = self._first(device)[1]
        return model if build is None else OnNest(model, build)

    def init_numbers(self) -> list[Any]:
        """Return the values of `get_init_inputs()`."""
        return _init_inputs(self.module)

    def checker(self) -> Callable[[list[Any], list[torch.Tensor]], str] | None:
        """Return the task's own check, or None where the oracle decides.

        The check takes a slot's values as they were before the call, and the candidate's outputs; it changes neither.
        It returns "" where all is well, else the task's message.
        """
        return None


class _Rebuilt:
    """Forward pre-hook: gives a reference the nest that a slot's values belong to."""

    def __init__(self, build: Build) -> None:
        self._build = build

    def __call__(self, module: torch.nn.Module, values: tuple[Any, ...]) -> tuple[Any, ...]:
        del module
        return tuple(self._build(values))


class OnNest:
    """A candidate's module that is called with a slot's values and gets the nest that they belong to."""

    def __init__(self, module: torch.nn.Module, build: Build) -> None:
        self.module, self._build = module, build

    def __call__(self, *values: Any) -> Any:
        """Call the module."""
        return self.module(*self._build(values))


def build_model(
    module: ModuleType, name: str, reference: ModuleType, device: str, weight_seed: int, mode: Mode = "train"
) -> torch.nn.Module:
    """Instantiate `module.<name>` with the reference's init inputs, on `device`, after seeding.

    In mode "train" it stays as its constructor leaves it, as KernelBench does.
    """
    torch.manual_seed(weight_seed)
    with torch.device(device):
        model: torch.nn.Module = getattr(module, name)(*_init_inputs(reference))
    model = model.to(device)
    return model.eval() if mode == "eval" else model


def _init_inputs(reference: ModuleType) -> list[Any]:
    values = reference.get_init_inputs()
    if not isinstance(values, tuple | list):
        raise TypeError(
            f"get_init_inputs() returned a {type(values).__name__}; it must return a list or a tuple of the "
            "constructor's arguments"
        )
    return list(cast("list[Any]", values))


def outputs_of(result: Any) -> list[torch.Tensor]:
    """Return the plain tensors in a forward's result, numbers as tensors without dimensions, and None left out.

    Tuples, lists and dicts are entered. Raises TypeError for anything else.
    """
    return _plain(result, (torch.Tensor, torch.nn.Parameter))


def _plain(result: Any, kinds: Sequence[type]) -> list[torch.Tensor]:
    found = [leaf for leaf in leaves(result) if leaf is not None]
    device = next((leaf.device for leaf in found if isinstance(leaf, torch.Tensor)), None)
    outputs: list[torch.Tensor] = []
    for leaf in found:
        if type(leaf) in (bool, int, float):
            outputs.append(torch.tensor(leaf, device=device))
        elif type(leaf) in kinds:
            outputs.append(leaf)
        else:
            raise TypeError(f"forward returned {type(leaf).__name__}, not a tensor")
    return outputs


def oracle(model: torch.nn.Module, inputs: Sequence[Any]) -> tuple[list[torch.Tensor], str]:
    """Return the expected outputs and how they were made: in fp64, else in the highest fp32 precision.

    TF32 is off either way, and torch's settings come back at the end. The inputs stay as they are, even where the
    reference writes to them.
    """
    with numerics.without_tf32():
        try:
            return outputs_of(copy.deepcopy(model).double()(*copies(inputs, torch.float64))), "fp64"
        except Exception:  # a reference may refuse fp64 in any way; what is really wrong with it shows in the next line
            return outputs_of(model(*copies(inputs))), "fp32 highest"


def copies(values: Sequence[Any], floats: torch.dtype | None = None) -> list[Any]:
    """Copy the tensors among the values, those of floating point as `floats`, because a reference may write to them."""
    return [
        v.to(floats if floats and v.is_floating_point() else v.dtype, copy=True) if isinstance(v, torch.Tensor) else v
        for v in values
    ]


def shapes_of(values: Sequence[Any]) -> list[Any]:
    """Return what must be the same at each draw: shapes, dtypes and numbers."""
    return [(tuple(v.shape), v.dtype) if isinstance(v, torch.Tensor) else v for v in values]


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
    sees no GPU for a CUDA target, see `tracing.reference`. Raises what the reference raises, or `ReferenceFailed`.
    Counting `flops` takes seconds the first time in a process; without, they are None.
    """
    device = "cuda" if job.get("target_kind") == "cuda" else "cpu"

    def with_values() -> Signature:
        if device == "cuda" and not torch.cuda.is_available():
            # Imported late, because it builds on this module.
            from forewarp.gpu_runner.tracing.reference import describe_without_device

            return describe_without_device(cast("Any", _describe_on), job, workload, flops=flops)
        return _describe_on(Problem.of_job(job, workload, 0), device, flops=flops)

    if job.get("format", "kernelbench") != "kernelbench":
        return with_values()
    problem = Problem.of_job(job, workload, 0)
    if problem.call is not None:
        problem.call.check(problem.module.Model.forward)
    try:
        signature = _describe_on(problem, "meta", flops=flops)
    except Exception:
        return with_values()
    return with_values() if signature.written else signature


@torch.no_grad()
def describe_shapes(job: Mapping[str, Any], workload: Workload) -> Signature:
    """Work out a signature on meta tensors alone; raises what the reference raises where it needs values."""
    return _describe_on(Problem.of_job(job, workload, 0), "meta", flops=False)


def _describe_on(
    problem: Problem, device: str, *, flops: bool = True, real: bool = True, values: list[Any] | None = None
) -> Signature:
    """Describe by running the reference once, on `values` if there are any.

    Without `real`, tensors have no elements whatever device they name.
    """
    real = real and device != "meta"
    model = problem.model(device)
    values = problem.inputs(0, device) if values is None else values
    held = held_by(model)
    tensors, old = tensors_of(values), copies(values) if real else []
    before = copies(list(held.values())) if real else []
    versions = [t._version for t in (*tensors, *held.values())]
    counted, needed = None, 0.0
    with contextlib.ExitStack() as stack:
        counter = stack.enter_context(_flop_counter()) if flops else None
        seen = stack.enter_context(operations.Seen())
        result = model(*values)
    kinds = {torch.Tensor, torch.nn.Parameter} | ({type(t) for t in tensors} if not real else set())
    outputs = _plain(result, tuple(kinds))
    if counter is not None:
        counted = float(counter.get_total_flops()) or None
        needed = (counted or 0.0) if seen.all_needed else 0.0
    written = tuple(
        i
        for i, (t, v) in enumerate(zip(tensors, versions, strict=False))
        if t._version != v or (real and not _equal(t, tensors_of(old)[i]))
    )
    if not outputs and not written:
        raise ValueError("forward returns nothing to compare: no tensor, no number, and no input is changed")
    aliases = {str(o): i for o, output in enumerate(outputs) for i in written if _same(output, tensors[i])}
    state = _changed(model, held, versions[len(tensors) :], before, seen.statistics)
    weights = model.state_dict()
    moved = [*weights.values(), *(o for i, o in enumerate(outputs) if str(i) not in aliases), *tensors]
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
        needed_flops=needed,
        state=state,
        random=bool(seen.random),
    )


def _changed(
    model: torch.nn.Module,
    held: Mapping[str, torch.Tensor],
    versions: Sequence[int],
    before: Sequence[torch.Tensor],
    statistics: Sequence[torch.Tensor],
) -> tuple[str, ...]:
    """Return the names of parameters and buffers that a call has changed or replaced.

    `before` are copies from before the call, empty where tensors have no elements.
    """
    now = held_by(model)
    changed: list[str] = []
    for i, (name, tensor) in enumerate(held.items()):
        after = now.get(name)
        touched = after is not tensor or tensor._version != versions[i] or any(tensor is s for s in statistics)
        if touched or (before and not _equal(tensor, before[i])):
            changed.append(name)
    return tuple(changed)


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
