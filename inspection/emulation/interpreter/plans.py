"""Run a launch plan's kernels, one program after another."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from forewarp.core.values import TensorSpec
from forewarp.gpu_runner.formats.plan import Argument, ResolvedLaunch
from forewarp.gpu_runner.worker.problem import import_text
from forewarp.inspection.emulation.interpreter import internals
from forewarp.inspection.emulation.interpreter.findings import Place
from forewarp.inspection.emulation.interpreter.memory import Memory
from forewarp.inspection.emulation.interpreter.pace import Born, Pace, as_bytes, place_of

ELEMENTS = {
    "float64": "fp64",
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e5m2": "fp8e5",
    "float8_e4m3fn": "fp8e4nv",
    "int64": "int64",
    "int32": "int32",
    "int16": "int16",
    "int8": "int8",
    "uint64": "uint64",
    "uint32": "uint32",
    "uint16": "uint16",
    "uint8": "uint8",
    "bool": "int1",
}
"""Triton's names of element types, by torch's."""
_NUMBERS = {"i32": "int32", "i64": "int64", "f32": "fp32", "f64": "fp64"}


class PlanRun:
    """A candidate's launches, bound to the buffers of a scene."""

    def __init__(self, born: Born) -> None:
        """Raises `builder.Unsupported`, and what importing the source raises."""
        self.scene, self.path, self.in_kernel = born.scene, "", True
        self.memory = self._new_memory(lambda kernel: Place(kernel, internals.line_in(self.path)))
        self._kernels = internals.install(self.memory)
        module = import_text(born.source)
        self.path = str(Path(str(module.__file__)))
        self._addresses: dict[str, int] = {}
        self._scratch: list[torch.Tensor] = []
        self._register()
        plan = self.scene.plan
        self._grid = plan.programs
        self._calls: list[tuple[ResolvedLaunch, Any, dict[str, Any]]] = []
        for launch in plan.launches:
            kernel = self._kernels.find(module, launch.kernel)
            self._calls.append((launch, kernel, self._arguments(kernel, launch)))

    def _new_memory(self, place: Callable[[str], Place]) -> Memory:
        return Memory(place)

    def _register(self) -> None:
        plan = self.scene.plan
        written = {plan.inputs[i] for i in self.scene.written_values}
        for name, tensor in self.scene.inputs.items():
            self._add(name, tensor, watched=name in written)
        for name, tensor in self.scene.params.items():
            self._add(name, tensor, watched=False)
        for name, tensor in self.scene.outputs.items():
            if name in plan.aliases:
                self._addresses[name] = self._addresses[plan.aliases[name]]
            else:
                self._add(name, tensor, watched=True, filled=False)
        for spec in plan.scratch:
            tensor = self._scratch_of(spec)
            self._scratch.append(tensor)
            self._add(spec.name, tensor, watched=True)

    def _add(self, name: str, tensor: torch.Tensor, *, watched: bool, filled: bool = True) -> None:
        size = tensor.element_size()
        content = self._bytes_of(tensor)
        self._addresses[name] = self.memory.add(name, content, size, watched=watched, filled=filled)

    def _bytes_of(self, tensor: torch.Tensor) -> Any:
        return as_bytes(tensor)

    def _scratch_of(self, spec: TensorSpec) -> torch.Tensor:
        return torch.zeros(spec.shape, dtype=getattr(torch, spec.dtype))

    def _arguments(self, kernel: Any, launch: ResolvedLaunch) -> dict[str, Any]:
        """Return the kernel's arguments by name, as they would be compiled and passed."""
        given = iter(launch.args)
        arguments: dict[str, Any] = {}
        constants = self.scene.plan.constants
        for name, constant, default in self._kernels.parameters(kernel):
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
            return self._kernels.number(argument.value, _NUMBERS[argument.kind])
        if argument.dtype not in ELEMENTS:
            raise LookupError(f"{argument.name} has dtype {argument.dtype}, which Triton has no pointer for")
        return self._kernels.pointer(self._addresses[argument.name], ELEMENTS[argument.dtype])

    def run(self, pace: Pace) -> None:
        """Run every launch; raises what the kernels raise, and `TooSlow`."""
        pace.grid = self._grid
        self._clear()
        for launch, kernel, arguments in self._calls:
            self.memory.begin_launch(launch.kernel, math.prod(launch.grid))
            self._run_programs(self._kernels.bind(kernel, arguments, launch.grid), launch.grid, pace)
        self._finish(partial=pace.partial)

    def _run_programs(self, program: Callable[[int, int, int], None], grid: Sequence[int], pace: Pace) -> None:
        run_programs(self.memory, program, grid, pace)

    def _clear(self) -> None:
        """Put everything back to where nothing has been written."""
        for tensor in self._scratch:
            tensor.zero_()
        for buffer in self.memory.buffers:
            buffer.merged = None
            if buffer.written is not None:
                buffer.written[:] = False

    def _finish(self, *, partial: bool) -> None:
        """Tell which elements of the outputs the programs wrote, and note those that none did."""
        for name, mask in self.scene.masks.items():
            buffer = self.memory.named(name)
            written = buffer.written
            assert written is not None
            if partial:
                whole = written & ~buffer.merged if buffer.merged is not None else written
                mask.copy_(torch.from_numpy(whole.reshape(mask.numel(), -1).all(axis=1)).view(mask.shape))
            elif not written.all():
                missing = int((~written).sum())
                self.memory.ledger.note(
                    "uninitialised",
                    buffer.stored_at or Place(self.scene.plan.launches[-1].kernel, 0),
                    f"{missing} of {len(written)} elements of {name} are never written; the first is element "
                    f"{int((~written).argmax())}",
                    missing,
                )


def run_programs(memory: Memory, program: Callable[[int, int, int], None], grid: Any, pace: Pace) -> None:
    """Run a launch's programs as the pace says."""
    memory.reach.launched(memory.kernel, grid)
    for number in _numbers(grid, pace):
        x, y, z = place_of(number, grid)
        memory.begin_program(number + 1, f"({x}, {y}, {z})")
        program(x, y, z)
        pace.done += 1


def _numbers(grid: Any, pace: Pace) -> Iterator[int]:
    for number in pace.order(math.prod(grid)):
        if not pace.go_on():
            return
        yield number
