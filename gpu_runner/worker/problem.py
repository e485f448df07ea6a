"""The reference side of a task: load it, draw inputs, work out expected outputs."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from forewarp.core.errors import tells_of_memory
from forewarp.core.files import import_file
from forewarp.core.values import AskedGradients, Backward, Mode, TensorSpec, Workload
from forewarp.gpu_runner.worker import activity, differentiation
from forewarp.gpu_runner.worker.nest import NestBuilder, check_inputs, flatten, is_flat, leaves
from forewarp.gpu_runner.worker.tracebacks import first_line, format_error


class ReferenceFailed(Exception):
    """The reference, not the candidate, raised, ran out of memory or has no inputs."""


@contextlib.contextmanager
def running_reference(doing: str) -> Generator[None]:
    """Raise whatever the reference raises as `ReferenceFailed` that says what it was doing; nothing else may run here.

    An error of the device is left as it is: a candidate's code may have left it there.
    """
    try:
        with activity.running_reference():
            yield
    except ReferenceFailed:
        raise
    except (torch.OutOfMemoryError, MemoryError) as e:
        raise ReferenceFailed(f"{doing} ran out of memory: {first_line(e)}") from e
    except (Exception, SystemExit) as e:
        if isinstance(e, RuntimeError) and "CUDA error" in str(e):
            raise
        what = "ran out of memory" if tells_of_memory(str(e)) else f"raised {type(e).__name__}"
        raise ReferenceFailed(f"{doing} {what}: {first_line(e)}\n{format_error(e, 4)}") from e


def load_module(source: str, name: str, constants: Mapping[str, Any]) -> ModuleType:
    """Run a KernelBench file as a module, registered by its name, and set a workload's constants in it."""
    module = sys.modules[name] = ModuleType(name)  # dataclasses, torch.export and torch.compile look it up there
    exec(compile(source, f"<{name}>", "exec", dont_inherit=True), module.__dict__)
    unknown = sorted(k for k in constants if k not in module.__dict__)
    if unknown:
        raise ReferenceFailed(f"the workload sets {', '.join(unknown)}, which the reference does not define")
    module.__dict__.update(constants)
    return module


def import_text(source: str) -> ModuleType:
    """Import text from a file of its own, because Triton reads a kernel's text through `inspect`."""
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as f:
        f.write(source)
    return import_file(Path(f.name), "candidate_module", register=True)


@dataclass(frozen=True, slots=True)
class Problem:
    """A loaded reference for one workload: here a KernelBench file, in `kernelbot` a KernelBot task.

    A slot's values are the tensors and numbers of `get_inputs()` in order (see `nest`), then upstream gradients where
    `gradients` are asked for: calls then take the `backward` pass. `state`, `random` and `outputs` are the signature's,
    where there is one. `known` keeps what is found out once.
    """

    module: ModuleType
    workload: str
    weight_seed: int
    constants: Mapping[str, Any]
    mode: Mode = "train"
    state: tuple[str, ...] = ()
    random: bool = False
    outputs: tuple[TensorSpec, ...] | None = None
    gradients: AskedGradients | None = None
    backward: Backward | None = None
    known: dict[str, Any] = field(default_factory=dict[str, Any], compare=False)

    @classmethod
    def load(cls, reference: str, workload: Workload, weight_seed: int, mode: Mode = "train") -> Problem:
        module = load_module(reference, "reference", workload.constants)
        return cls(module, workload.name, weight_seed, workload.constants, mode)

    def model(self, device: str) -> torch.nn.Module:
        """Return the reference model with the weights that `weight_seed` gives; it is called with a slot's values."""
        model = build_model(self.module, "Model", self.module, device, self.weight_seed, self.mode)
        build, backward = self._first(device)[1], self.backward_on(device)
        if backward is not None:
            return differentiation.differentiate(model, build, backward, results=self.gradients == "too")
        if build is not None:
            model.register_forward_pre_hook(lambda _, values: tuple(build(values)))
        return model

    def inputs(self, seed: int, device: str) -> list[Any]:
        """Return freshly drawn values, tensors and numbers, that the model is called with.

        Raises TypeError for inputs no kernel can take, ValueError if more than tensors' elements differs between draws.
        """
        (first, build), backward = self._first(device), self.backward_on(device)  # which may draw numbers
        data = self._draw(seed, device)
        values = data if build is None and is_flat(data) else flatten(data)[0]
        if shapes_of(first) != shapes_of(values):
            raise ValueError(
                f"get_inputs() gives {shapes_of(values)} at one call and {shapes_of(first)} at another; shapes and "
                "numbers must follow from the module's constants alone"
            )
        upstream = [] if backward is None else differentiation.draw(backward, device)
        return with_tensors((*values, *upstream), lambda t: t.to(device))

    def arguments(self, seed: int, device: str) -> list[Any]:
        """Return freshly drawn arguments of forward: the values of `inputs` in their nest."""
        values, build = self.inputs(seed, device), self._first(device)[1]
        return values if build is None else list(build(values))

    def _draw(self, seed: int, device: str) -> list[Any]:
        torch.manual_seed(seed)
        with torch.device(device):
            data = self.module.get_inputs()
        if not isinstance(data, tuple | list):
            raise TypeError(
                f"get_inputs() returned a {type(data).__name__}; it must return a list or a tuple of what forward takes"
            )
        check_inputs(cast("list[Any]", data))
        return list(cast("list[Any]", data))

    def _first(self, device: str) -> tuple[list[Any], NestBuilder | None]:
        """Return the values of one draw, tensors without elements, and their nest; None where there is none."""
        if "first" not in self.known:
            # In a CPU worker the first operation without elements would load half of torch, which takes longer.
            data = self._draw(0, device) if device == "cpu" else self._shapes(device)
            values, build = flatten(data)
            self.known["first"] = with_tensors(values, lambda t: t.to("meta")), None if is_flat(data) else build
        return self.known["first"]

    def backward_on(self, device: str) -> Backward | None:
        """Return the backward pass where gradients are asked for: the signature's, else as a call tells."""
        if self.backward is not None or not self.gradients:
            return self.backward
        if "backward" not in self.known:
            build = self._first(device)[1]
            data = self._draw(0, device)
            values = data if build is None else flatten(data)[0]
            model = build_model(self.module, "Model", self.module, device, self.weight_seed, self.mode)
            self.known["backward"], self.known["needed"] = differentiation.find(model, build, values)
        return self.known["backward"]

    def _shapes(self, device: str) -> list[Any]:
        try:
            return self._draw(0, "meta")
        except Exception:  # whatever get_inputs() needs elements for; what is wrong with it shows in the next line
            return self._draw(0, device)

    def bind(self, module: ModuleType, device: str, weights: Mapping[str, torch.Tensor]) -> Callable[..., Any]:
        """Return a candidate's module as a function of a slot's values; raises TypeError if it has no `ModelNew`.

        A model with the same keys takes the reference's `weights`, any other keeps what `weight_seed` gives.
        """
        if not hasattr(module, "ModelNew"):
            raise TypeError("the module defines no class ModelNew")
        # A module that repeats the reference's constants follows the workload too.
        module.__dict__.update({k: v for k, v in self.constants.items() if k in module.__dict__})
        model = build_model(module, "ModelNew", self.module, device, self.weight_seed, self.mode)
        if model.state_dict().keys() == weights.keys():
            model.load_state_dict(weights)
        build, backward = self._first(device)[1], self.backward_on(device)
        if backward is not None:
            return differentiation.differentiate(model, build, backward, results=self.gradients == "too")
        return model if build is None else OnNest(model, build)

    def init_numbers(self) -> list[Any]:
        return _init_inputs(self.module)

    def checker(self) -> Callable[[list[Any], list[torch.Tensor]], str] | None:
        """Return the task's own check of values and outputs, for "" or a message; None for the oracle."""
        return None


class OnNest:
    """A candidate's module that is called with a slot's values and gets the nest that they belong to."""

    def __init__(self, module: torch.nn.Module, build: NestBuilder) -> None:
        self.module, self._build = module, build

    def __call__(self, *values: Any) -> Any:
        return self.module(*self._build(values))


class DrawnOn(TorchDispatchMode):
    """Mode in which tensors that lie elsewhere are filled with the random numbers that a device's own would get.

    `torch.Tensor(…)` lies on the CPU also under `torch.device("cuda")`: weights drawn into it would be others.
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self._device = torch.device(device)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call an operation of torch; one that draws into its first argument draws on the device, then copies."""
        named = dict(kwargs or {})
        alone = not any(isinstance(a, torch.Tensor) for a in args[1:])  # else the others lie elsewhere too
        elsewhere = _draws_in_place(func) and alone and args[0].device.type != self._device.type
        if not elsewhere or named.get("generator") is not None:
            return func(*args, **named)
        return args[0].copy_(func(torch.empty_like(args[0], device=self._device), *args[1:], **named))


def _draws_in_place(operation: Any) -> bool:
    if torch.Tag.nondeterministic_seeded not in operation.tags:
        return False
    first = operation._schema.arguments[0].alias_info
    return first is not None and first.is_write


def build_model(
    module: ModuleType, name: str, reference: ModuleType, device: str, weight_seed: int, mode: Mode = "train"
) -> torch.nn.Module:
    """Instantiate `module.<name>` after seeding; in mode "train" as its constructor leaves it, as KernelBench does."""
    torch.manual_seed(weight_seed)
    with torch.device(device), contextlib.nullcontext() if device == "cpu" else DrawnOn(device):
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
    """Return the plain tensors in a forward's result, with numbers as tensors; raises TypeError for others."""
    return plain_outputs(result, (torch.Tensor, torch.nn.Parameter))


def plain_outputs(result: Any, kinds: Sequence[type]) -> list[torch.Tensor]:
    """Return the tensors of a forward's result; raises TypeError for other kinds or several devices."""
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
    places = sorted({o.device.type for o in outputs})
    if len(places) > 1:
        raise TypeError(f"forward returned tensors on {' and '.join(places)}: make all of them on the inputs' device")
    return outputs


def copies(values: Sequence[Any], floats: torch.dtype | None = None) -> list[Any]:
    """Copy the tensors among the values, those of floating point as `floats`, because a reference may write to them."""
    return with_tensors(values, lambda t: t.to(floats if floats and t.is_floating_point() else t.dtype, copy=True))


def with_tensors(values: Sequence[Any], change: Callable[[torch.Tensor], Any]) -> list[Any]:
    return [change(v) if isinstance(v, torch.Tensor) else v for v in values]


def shapes_of(values: Sequence[Any]) -> list[Any]:
    """Return what must be the same at each draw: shapes, dtypes and numbers."""
    return with_tensors(values, lambda t: (tuple(t.shape), t.dtype))


def tensors_of(values: Sequence[Any]) -> list[torch.Tensor]:
    return [v for v in values if isinstance(v, torch.Tensor)]


def dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
