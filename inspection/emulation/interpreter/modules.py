"""Run a Python module whose Triton kernels are interpreted, on CPU tensors that pass for CUDA tensors."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from forewarp.core import serde
from forewarp.core.values import Target
from forewarp.gpu_runner.worker.problem import dtype_name, import_text, outputs_of
from forewarp.inspection.emulation.interpreter import internals
from forewarp.inspection.emulation.interpreter.builder import Unsupported
from forewarp.inspection.emulation.interpreter.findings import Place
from forewarp.inspection.emulation.interpreter.memory import POISON, Buffer, BufferPart, Memory
from forewarp.inspection.emulation.interpreter.pace import Born, Pace, as_bytes
from forewarp.inspection.emulation.interpreter.plans import ELEMENTS, run_programs
from forewarp.inspection.tracing import driver, masquerade
from forewarp.inspection.tracing.recorder import Recorder

_UNFILLED = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")


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


class ModuleRun:
    """A module bound to a scene's values; each of its kernels is run as it is launched."""

    def __init__(self, born: Born) -> None:
        """Raises `Unsupported`, and what importing the module raises."""
        if "cpp_extension" in born.source:
            raise Unsupported("the module builds a C++ or CUDA extension, which is not interpreted")
        self.scene, self.path, self.in_kernel = born.scene, "", False
        self.memory = self._new_memory(lambda kernel: Place(kernel, internals.line_in(self.path)))
        self._kernels = internals.install(self.memory)
        self._recorder = Recorder(Path(born.folder))
        self._target = serde.from_data(Target, born.job["target"])
        self._pace = Pace(0.0, False)
        self._poisoned = _Poisoned()
        self._known: dict[int, tuple[Buffer, Any]] = {}
        self._windows: dict[tuple[Any, ...], int] = {}
        self._kernels.on_launch(self._launch, self._pointer)
        self._one_configuration()
        self._prepare(born)

    def _prepare(self, born: Born) -> None:
        with self._pretending(), self._poisoned:
            module = import_text(born.source)
            self.path = str(module.__file__)
            self._call = self.scene.problem.bind(module, "cpu", self.scene.weights)

    def _new_memory(self, place: Callable[[str], Place]) -> Memory:
        return Memory(place)

    @contextlib.contextmanager
    def _pretending(self) -> Generator[masquerade.Masquerade]:
        import triton.runtime

        active: Any = triton.runtime.driver
        active.set_active(driver.Driver(self._target, self._recorder))
        with masquerade.masquerading(self._target, self._recorder) as mode:
            yield mode

    @staticmethod
    def _one_configuration() -> None:
        """Have autotuned kernels take their first configuration: none is faster than another here."""
        from triton.runtime.autotuner import Autotuner

        def bench(tuner: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
            return [1.0, 1.0, 1.0]

        tuner: Any = Autotuner
        tuner._bench = bench

    def run(self, pace: Pace) -> None:
        """Call the module once and copy its results out; raises what it raises, and `TooSlow`."""
        self._pace = pace
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

    def _pointer(self, tensor: Any, name: str = "") -> Any:
        """Return a tensor as a kernel's argument."""
        with torch._C.DisableTorchFunction():  # pyright: ignore[reportPrivateUsage]
            plain: torch.Tensor = getattr(tensor, "base", tensor)
            element = ELEMENTS.get(dtype_name(plain)) if plain is tensor else str(tensor.dtype)
            if element is None:
                raise LookupError(f"Triton has no pointer to {plain.dtype}")
            return self._kernels.pointer(self._address(plain, name or "a tensor"), element)

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
        """Return where the memory that a tensor is part of begins, and its bytes.

        The task's inputs share one storage here, and have an allocation each on a GPU.
        """
        for value in self.scene.values:
            if isinstance(value, torch.Tensor):
                start, size = value.data_ptr(), value.numel() * value.element_size()
                if start <= tensor.data_ptr() < start + size:
                    return start, size
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.nbytes()

    def _content(self, tensor: torch.Tensor, start: int, size: int) -> tuple[Any, bool]:
        """Return the bytes of an allocation, and whether they hold anything yet."""
        storage = tensor.untyped_storage()
        first = start - storage.data_ptr()
        content = as_bytes(torch.empty(0, dtype=torch.uint8).set_(storage))[first : first + size]
        return content, storage.data_ptr() not in self._poisoned.storages

    def _view(self, tensor: torch.Tensor, start: int, size: int) -> BufferPart | None:
        """Return which part of its memory is a tensor's; None where all of it is."""
        width, first = tensor.element_size(), tensor.data_ptr() - start
        if first % width or not tensor.numel():
            return None
        members = torch.zeros(size // width, dtype=torch.bool)
        members.as_strided(tensor.shape, tensor.stride(), first // width).fill_(True)
        return None if members.all() else BufferPart(width, first, members.numpy())

    def _launch(self, kernel: Any, grid: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        parameters = self._kernels.parameters(kernel)
        names = {name for name, _, _ in parameters}
        given = inspect.signature(kernel.fn).bind(*args, **{k: v for k, v in kwargs.items() if k in names})
        given.apply_defaults()
        bound = given.arguments
        extents: Any = grid(bound) if callable(grid) else grid
        shape = (*(int(n) for n in extents), 1, 1, 1)[:3]
        constants = {name for name, constant, _ in parameters if constant}
        arguments = {n: v if n in constants else self._kernels.argument(v, n) for n, v in bound.items()}
        self._pace.grid += math.prod(shape)
        self.memory.begin_launch(kernel.fn.__name__, math.prod(shape))
        for buffer in self.memory.buffers:
            if buffer.written is not None:  # torch's own functions may have filled it meanwhile
                rows = buffer.content[: len(buffer.written) * buffer.size].reshape(-1, buffer.size)
                buffer.written |= (rows != np.uint8(POISON)).any(axis=1)
        self.in_kernel = True
        self._run_programs(self._kernels.bind(kernel, arguments, shape), shape, self._pace)
        self.in_kernel = False

    def _run_programs(self, program: Callable[[int, int, int], None], grid: Sequence[int], pace: Pace) -> None:
        run_programs(self.memory, program, grid, pace)
