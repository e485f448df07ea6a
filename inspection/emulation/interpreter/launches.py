"""Run a candidate's kernels, one program after another: those of a launch plan, or those that a module launches."""

from __future__ import annotations

import contextlib
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from forewarp.gpu_runner.formats.plan import Argument, ResolvedLaunch
from forewarp.gpu_runner.worker.nest import storage_of
from forewarp.gpu_runner.worker.operations import OperationMode
from forewarp.gpu_runner.worker.problem import dtype_name, import_text, outputs_of, tensors_of
from forewarp.inspection.emulation.interpreter import internals
from forewarp.inspection.emulation.interpreter.builder import Unsupported
from forewarp.inspection.emulation.interpreter.memory import POISON, Buffer, BufferPart, Memory, SourcePlace
from forewarp.inspection.emulation.interpreter.ownshape import SizedMemory, look_at_corners, without_contents
from forewarp.inspection.emulation.interpreter.pace import ChildSetup, Pace
from forewarp.inspection.emulation.scene import sized
from forewarp.inspection.tracing import masquerade, triton_driver
from forewarp.inspection.tracing.recorder import Recorder

ELEMENTS = {
    **{"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "bool": "int1"},
    **{"float8_e5m2": "fp8e5", "float8_e4m3fn": "fp8e4nv"},
    **{name: name for bits in (8, 16, 32, 64) for name in (f"int{bits}", f"uint{bits}")},
}
"""Triton's names of element types, by torch's."""
_NUMBERS = {"i32": "int32", "i64": "int64", "f32": "fp32", "f64": "fp64"}
_UNFILLED = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


class KernelRun(ABC):
    """A candidate bound to the buffers of a scene; without contents where the scene has none."""

    def __init__(self, setup: ChildSetup, *, in_kernel: bool) -> None:
        self.scene, self.path, self.in_kernel = setup.scene, "", in_kernel
        self.memory = (SizedMemory if setup.own_shape else Memory)(
            lambda k: SourcePlace(k, internals.line_in(self.path))
        )
        self.kernels = internals.install(self.memory)
        self.pace = Pace(0.0, False)

    def run(self, pace: Pace) -> None:
        """Run every launch once; raises what the candidate raises, and `TooSlow`."""
        self.pace = pace
        self._run()

    def room(self) -> dict[str, tuple[float, int]]:
        """Return the bytes that programs can write of each output, and its own; not of those torch may have written."""
        memory = self.memory
        if not isinstance(memory, SizedMemory):
            return {}
        return {name: (memory.room.get(buffer.base, 0), size) for name, (buffer, size) in self._open_outputs().items()}

    @abstractmethod
    def _run(self) -> None: ...

    @abstractmethod
    def _open_outputs(self) -> dict[str, tuple[Buffer, int]]:
        """Return the outputs that launches alone can fill, with their bytes."""

    def _launch(self, kernel: Any, arguments: Mapping[str, Any], name: str, grid: Sequence[int]) -> None:
        self.memory.begin_launch(name, grid)
        program = self.kernels.bind(kernel, arguments, grid)
        if isinstance(self.memory, SizedMemory):
            look_at_corners(self.memory, program, grid, self.pace)
            return
        for number in self.pace.order(math.prod(grid)):
            if not self.pace.go_on():
                return
            place = number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1])
            self.memory.begin_program(number + 1, str(place))
            program(*place)
            self.pace.done += 1


class PlanRun(KernelRun):
    """The launches of a plan."""

    def __init__(self, setup: ChildSetup) -> None:
        """Raises `builder.Unsupported`, and what importing the source raises."""
        super().__init__(setup, in_kernel=True)
        module = import_text(setup.job.candidate.source)
        self.path = str(Path(str(module.__file__)))
        self._addresses: dict[str, int] = {}
        self._scratch: list[torch.Tensor] = []
        self._register()
        self._calls: list[tuple[ResolvedLaunch, Any, dict[str, Any]]] = []
        for launch in self.scene.plan.launches:
            kernel = self.kernels.find(module, launch.kernel)
            self._calls.append((launch, kernel, self._arguments(kernel, launch)))

    def _register(self) -> None:
        plan, sized_only = self.scene.plan, isinstance(self.memory, SizedMemory)

        def add(name: str, tensor: torch.Tensor, *, watched: bool, filled: bool = True) -> None:
            content = without_contents(tensor.numel() * tensor.element_size()) if sized_only else as_bytes(tensor)
            self._addresses[name] = self.memory.add(
                name, content, tensor.element_size(), watched=watched, filled=filled
            )

        written = {plan.inputs[i] for i in self.scene.written_values}
        for name, tensor in self.scene.inputs.items():
            add(name, tensor, watched=name in written)
        for name, tensor in self.scene.params.items():
            add(name, tensor, watched=False)
        for name, tensor in self.scene.outputs.items():
            if name in plan.aliases:
                self._addresses[name] = self._addresses[plan.aliases[name]]
            else:
                add(name, tensor, watched=True, filled=False)
        for spec in plan.scratch:
            shape = sized(spec)
            self._scratch.append(shape if sized_only else torch.zeros_like(shape, device="cpu"))
            add(spec.name, self._scratch[-1], watched=True)

    def _arguments(self, kernel: Any, launch: ResolvedLaunch) -> dict[str, Any]:
        """Return the kernel's arguments by name, as they would be compiled and passed."""
        given, constants = iter(launch.args), self.scene.plan.constants
        arguments: dict[str, Any] = {}
        for name, constant, default in self.kernels.parameters(kernel):
            if constant:
                if name not in constants and default is None:
                    raise LookupError(f"{launch.kernel}: constexpr {name!r} is neither a tunable nor in [constants]")
                arguments[name] = constants.get(name, default)
                continue
            argument = next(given, None)
            if argument is None:
                raise LookupError(f"{launch.kernel} takes {name!r}, but launch args end before it")
            arguments[name] = self._argument(argument)
        if (extra := next(given, None)) is not None:
            raise LookupError(f"launch args go on with {extra.name!r}, but {launch.kernel} takes no more parameters")
        return arguments

    def _argument(self, argument: Argument) -> Any:
        if argument.kind != "ptr":
            return self.kernels.number(argument.value, _NUMBERS[argument.kind])
        if argument.dtype not in ELEMENTS:
            raise LookupError(f"{argument.name} has dtype {argument.dtype}, which Triton has no pointer for")
        return self.kernels.pointer(self._addresses[argument.name], ELEMENTS[argument.dtype])

    def _run(self) -> None:
        self.pace.grid = self.scene.plan.programs
        for tensor in self._scratch:
            tensor.zero_()
        self.memory.forget_writes()
        for launch, kernel, arguments in self._calls:
            self._launch(kernel, arguments, launch.kernel, launch.grid)
        if not isinstance(self.memory, SizedMemory):
            self._tell_written()

    def _open_outputs(self) -> dict[str, tuple[Buffer, int]]:
        own = {n: self.memory.named(n) for n in self.scene.outputs if n not in self.scene.plan.aliases}
        return {name: (buffer, len(buffer.content)) for name, buffer in own.items()}

    def _tell_written(self) -> None:
        """Tell which elements of the outputs the programs wrote, and note those that none did."""
        for name, mask in self.scene.masks.items():
            buffer = self.memory.named(name)
            written = buffer.written
            assert written is not None
            if self.pace.partial:
                whole = written & ~buffer.merged if buffer.merged is not None else written
                mask.copy_(torch.from_numpy(whole.reshape(mask.numel(), -1).all(axis=1)).view(mask.shape))
            elif not written.all():
                missing = int((~written).sum())
                self.memory.ledger.note(
                    "uninitialised",
                    buffer.stored_at or SourcePlace(self.scene.plan.launches[-1].kernel, 0),
                    f"{missing} of {len(written)} elements of {name} are never written; the first is element "
                    f"{int((~written).argmax())}",
                    missing,
                )


class _Poisoned(TorchFunctionMode):
    """Fills what torch leaves open with bytes that show, and remembers it."""

    def __init__(self) -> None:
        super().__init__()
        self.storages: set[int] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in _UNFILLED and isinstance(result, torch.Tensor) and result.numel():
            with torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
                storage: Any = result.untyped_storage()
                storage.fill_(POISON)
                self.storages.add(storage.data_ptr())
        return result


class _Unfilled(OperationMode):
    """Gathers the storages that torch leaves open and has not written to since."""

    def __init__(self) -> None:
        super().__init__()
        self.tensors: list[torch.Tensor] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        result = func(*args, **named)
        if func.overloadpacket.__name__ in _UNFILLED:
            self.tensors.append(result)
        elif func._schema.is_mutable:
            touched = {storage_of(leaf) for leaf in tree_leaves((args, named)) if isinstance(leaf, torch.Tensor)}
            self.tensors = [t for t in self.tensors if storage_of(t) not in touched]
        return result


class ModuleRun(KernelRun):
    """A module on CPU tensors that pass for CUDA tensors; each of its kernels is run as it is launched."""

    def __init__(self, setup: ChildSetup) -> None:
        """Raises `Unsupported`, and what importing the module raises."""
        if "cpp_extension" in setup.job.candidate.source:
            raise Unsupported("the module builds a C++ or CUDA extension, which is not interpreted")
        super().__init__(setup, in_kernel=False)
        self._recorder = Recorder(Path(setup.folder))
        self._target = setup.job.target
        self._poisoned = _Poisoned()
        self._known: dict[int, tuple[Buffer, Any]] = {}
        self._windows: dict[tuple[Any, ...], int] = {}
        self._open: dict[str, tuple[Buffer, int]] = {}
        self.kernels.on_launch(self._launched, self._pointer)
        self._source, self._call = setup.job.candidate.source, None
        if not setup.own_shape:
            with self._pretending(), self._poisoned:
                self._call = self._bound(self.scene.weights)

    def _bound(self, weights: Mapping[str, torch.Tensor]) -> Callable[..., Any]:
        module = import_text(self._source)
        self.path = str(module.__file__)
        return self.scene.problem.bind(module, "cpu", weights)

    @contextlib.contextmanager
    def _pretending(self) -> Generator[masquerade.Masquerade]:
        import triton.runtime
        from triton.runtime.autotuner import Autotuner

        active, tuner = triton.runtime.driver, Autotuner
        active.set_active(triton_driver.Driver(self._target, self._recorder))  # pyright: ignore[reportArgumentType]
        # Autotuned kernels take their first configuration: none is faster than another here.
        changes = [(tuner, "_bench", masquerade.constant([1.0, 1.0, 1.0])), *triton_driver.untimed()]
        with masquerade.masquerading(self._target, self._recorder) as mode, masquerade.replaced(changes):
            yield mode

    def _run(self) -> None:
        """Call the module once and copy its results out."""
        if self._call is None:
            self._run_without_values()
            return
        self._known.clear()
        self._windows.clear()
        self.memory.forget()
        with self._pretending(), self._poisoned:
            result = self._call(*self.scene.values)
        outputs = outputs_of(result)
        shapes = [(tuple(o.shape), o.dtype) for o in outputs]
        wanted = [(tuple(o.shape), o.dtype) for o in self.scene.results]
        if shapes != wanted:
            raise ValueError(f"forward returned {shapes}, the task returns {wanted}")
        for output, place in zip(outputs, self.scene.results, strict=True):
            place.copy_(output)

    def _run_without_values(self) -> None:
        with self._pretending() as mode, masquerade.shapes_only(mode), torch.no_grad():
            call, values = self._bound({}), self.scene.problem.inputs(0, "cpu")
            with _Unfilled() as unfilled:
                outputs = tensors_of(tree_leaves(call(*values)))
            for number, output in enumerate(outputs):
                known = self._known.get(self._allocation(output)[0])
                if known is not None and storage_of(output) in map(storage_of, unfilled.tensors):
                    size = min(output.numel() * output.element_size(), len(known[0].content))
                    self._open[f"output {number}"] = known[0], size

    def _open_outputs(self) -> dict[str, tuple[Buffer, int]]:
        return self._open

    def _pointer(self, tensor: Any, name: str = "") -> Any:
        with torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
            plain: torch.Tensor = getattr(tensor, "base", tensor)
            element = ELEMENTS.get(dtype_name(plain)) if plain is tensor else str(tensor.dtype)
            if element is None:
                raise LookupError(f"Triton has no pointer to {plain.dtype}")
            return self.kernels.pointer(self._address(plain, name or "a tensor"), element)

    def _address(self, tensor: torch.Tensor, name: str) -> int:
        """Return where a tensor's first element is for a kernel that gets it as the argument `name`."""
        start, size = self._allocation(tensor)
        if start not in self._known:
            content, filled = self._content(tensor, start, size)
            self.memory.add(name, content, tensor.element_size(), watched=True, filled=filled)
            # The storage is kept, so that no other takes its place in memory meanwhile.
            self._known[start] = self.memory.buffers[-1], tensor.untyped_storage()
        buffer = self._known[start][0]
        key = start, name, tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tensor.stride()
        if key not in self._windows:
            self._windows[key] = self.memory.window(buffer, name, self._view(tensor, start, size))
        return self._windows[key] + tensor.data_ptr() - start

    def _allocation(self, tensor: torch.Tensor) -> tuple[int, int]:
        """Return where a tensor's memory begins, and its bytes; inputs, which share one storage here, count alone."""
        for value in self.scene.values:
            if isinstance(value, torch.Tensor):
                start, size = value.data_ptr(), value.numel() * value.element_size()
                if start <= tensor.data_ptr() < start + size:
                    return start, size
        # Tensors without values have an address of their own, and their storage has none.
        start = tensor.data_ptr() - int(tensor.storage_offset()) * tensor.element_size()
        return start, tensor.untyped_storage().nbytes()

    def _content(self, tensor: torch.Tensor, start: int, size: int) -> tuple[Any, bool]:
        """Return the bytes of an allocation, and whether they hold anything yet."""
        if isinstance(self.memory, SizedMemory):
            return without_contents(size), True
        storage = tensor.untyped_storage()
        first = start - storage.data_ptr()
        content = as_bytes(torch.empty(0, dtype=torch.uint8).set_(storage))[first : first + size]
        return content, storage.data_ptr() not in self._poisoned.storages

    def _view(self, tensor: torch.Tensor, start: int, size: int) -> BufferPart | None:
        """Return which part of its memory is a tensor's; None where all of it is, or where no value can be wrong."""
        width, first = tensor.element_size(), tensor.data_ptr() - start
        if first % width or not tensor.numel() or isinstance(self.memory, SizedMemory):
            return None
        members = torch.zeros(size // width, dtype=torch.bool)
        members.as_strided(tensor.shape, tensor.stride(), first // width).fill_(True)
        return None if members.all() else BufferPart(width, first, members.numpy())

    def _launched(self, kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        parameters = self.kernels.parameters(kernel)
        names = {name for name, _, _ in parameters}
        given = inspect.signature(kernel.fn).bind(*args, **{k: v for k, v in kwargs.items() if k in names})
        given.apply_defaults()
        bound = given.arguments
        extents: Any = grid(bound) if callable(grid) else grid
        shape = (*(int(n) for n in extents), 1, 1, 1)[:3]
        constants = {name for name, constant, _ in parameters if constant}
        arguments = {n: v if n in constants else self.kernels.argument(v, n) for n, v in bound.items()}
        self.pace.grid += math.prod(shape)
        self.memory.notice_writes()  # torch's own functions may have filled buffers meanwhile
        self.in_kernel = True
        self._launch(kernel, arguments, kernel.fn.__name__, shape)
        self.in_kernel = False


def as_bytes(tensor: torch.Tensor) -> Any:
    """Return a contiguous tensor's bytes as a numpy array that shares its memory."""
    return tensor.detach().view(-1).view(torch.uint8).numpy() if tensor.numel() else np.zeros(0, np.uint8)
