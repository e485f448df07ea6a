"""A look at the task's own shape without its data: a few programs of each launch, on memory that has sizes only.

Shapes are shrunk before a kernel is run, which hides what goes wrong in large ones: offsets beyond 32 bits, and masks
that fail in the last block. Here every load gives a made-up value, and only the addresses are looked at. A fault counts
where it is the same for two different values, so that what depends on the data accuses nobody.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from forewarp.core.values import TensorSpec
from forewarp.gpu_runner.worker.problem import Problem, import_text
from forewarp.inspection.emulation.interpreter.findings import Ledger, Place
from forewarp.inspection.emulation.interpreter.memory import (
    Array,
    BufferPart,
    Change,
    Mask,
    Memory,
    MemoryFault,
    Part,
    put,
)
from forewarp.inspection.emulation.interpreter.modules import ModuleRun
from forewarp.inspection.emulation.interpreter.pace import SPINS, Born, Pace
from forewarp.inspection.emulation.interpreter.plans import PlanRun
from forewarp.inspection.emulation.interpreter.scene import sized

_FILLS = 0, 1
"""Values that loads return in the first and in the second run: valid indices of any table, bounds of short loops."""
_FEW_BITS = 1 << 31


class _Waits(Exception):
    """A program waits for a value that never comes."""


def without_contents(size: int) -> Any:
    """Return so many bytes of which all are one and the same."""
    return np.broadcast_to(np.zeros(1, np.uint8), (size,))


class Hollow(Memory):
    """Memory without contents: loads give `fill`, stores go nowhere, and addresses are looked at."""

    def __init__(self, place: Callable[[str], Place]) -> None:
        super().__init__(place)
        self.fill = 0

    def add(self, name: str, content: Any, size: int, *, watched: bool, filled: bool = True) -> int:
        """Make a buffer known; nothing but its size is remembered."""
        del watched, filled
        return super().add(name, content, size, watched=False)

    def load(self, addresses: Array, mask: Mask, other: Array, *, volatile: bool = False) -> Array:
        """Return `fill`, or `other` where the mask is false."""
        del volatile
        result = np.array(np.broadcast_to(other, addresses.shape))
        self._look(result, addresses, mask, "loads")
        return result

    def store(self, addresses: Array, values: Array, mask: Mask) -> None:
        """Look at the addresses."""
        self._look(np.zeros(addresses.shape, values.dtype), addresses, mask, "stores")

    def change(self, addresses: Array, mask: Mask, values: Array, apply: Change, order: tuple[bool, bool]) -> Array:
        """Return `fill` as the old values."""
        self.atomics += 1
        if self.atomics > SPINS:
            raise _Waits
        old = np.zeros(addresses.shape, values.dtype)
        self._look(old, addresses, mask, "changes")
        return old

    def _look(self, result: Array, addresses: Array, mask: Mask, verb: str) -> None:
        for part in self._parts(addresses, mask, result.itemsize, verb):
            self._within(part, result.itemsize, verb)
            put(result, part.lanes, np.full(len(part.at), self.fill, result.dtype))

    def _count_sectors(self, at: Array, width: int, verb: str) -> None:
        """Do nothing: a few programs say little about traffic."""

    def _beyond(self, part: Part, outside: Array, width: int, verb: str) -> str:
        message = super()._beyond(part, outside, width, verb)
        if len(part.buffer.content) // width >= _FEW_BITS and outside.min() < 0:
            return f"{message}; an offset of 2**31 or more does not fit 32 bits: compute it in 64 (.to(tl.int64))"
        return message


class _Looks:
    """A run that looks at a few programs of each launch."""

    memory: Memory

    def _run_programs(self, program: Callable[[int, int, int], None], grid: Sequence[int], pace: Pace) -> None:
        memory = self.memory
        assert isinstance(memory, Hollow)
        certain = memory.ledger
        memory.reach.launched(memory.kernel, grid)
        try:
            for place in corners(grid):
                _agree(certain, *(_seen(memory, program, place, fill) for fill in _FILLS))
                pace.done += 1
        finally:
            memory.ledger = certain


def _seen(memory: Hollow, program: Callable[..., None], place: tuple[int, ...], fill: int) -> Ledger:
    memory.ledger, memory.fill = Ledger(), fill
    memory.begin_program(1, str(place))
    try:
        program(*place)
    except (_Waits, MemoryFault, ArithmeticError):
        return Ledger()  # made-up values may lead anywhere
    return memory.ledger


def _agree(certain: Ledger, one: Ledger, other: Ledger) -> None:
    """Note what was seen in the same way twice."""
    for (kind, place), seen in one.seen.items():
        again = other.seen.get((kind, place))
        if again is not None and again.message == seen.message:
            certain.note(kind, place, seen.message, seen.count)


def corners(grid: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the places in a grid's corners, the last one first."""
    ends = [dict.fromkeys((n - 1, 0)) for n in grid]
    return itertools.product(*ends) if all(grid) else iter(())


class ModuleAtOwnShape(_Looks, ModuleRun):
    """A module called on tensors that have shapes and no values."""

    def _prepare(self, born: Born) -> None:
        self._source = born.source

    def _new_memory(self, place: Callable[[str], Place]) -> Memory:
        return Hollow(place)

    def run(self, pace: Pace) -> None:
        """Import the module and call it once; raises what it raises."""
        # Imported here, because it takes long, and few processes need it.
        from forewarp.inspection.tracing.shapes_only import shapes_only

        self._pace = pace
        problem: Problem = self.scene.problem
        with self._pretending() as mode, shapes_only(mode), torch.no_grad():
            module = import_text(self._source)
            self.path = str(module.__file__)
            call = problem.bind(module, "cpu", {})
            call(*problem.inputs(0, "cpu"))

    def _allocation(self, tensor: torch.Tensor) -> tuple[int, int]:
        start = tensor.data_ptr() - int(tensor.storage_offset()) * tensor.element_size()
        return start, tensor.untyped_storage().nbytes()

    def _content(self, tensor: torch.Tensor, start: int, size: int) -> tuple[Any, bool]:
        del tensor, start
        return without_contents(size), True

    def _view(self, tensor: torch.Tensor, start: int, size: int) -> BufferPart | None:
        """Return None: views are looked into where there are values that can be wrong."""


class PlanAtOwnShape(_Looks, PlanRun):
    """A launch plan at a shape, without its buffers."""

    def _new_memory(self, place: Callable[[str], Place]) -> Memory:
        return Hollow(place)

    def _bytes_of(self, tensor: torch.Tensor) -> Any:
        return without_contents(tensor.numel() * tensor.element_size())

    def _scratch_of(self, spec: TensorSpec) -> torch.Tensor:
        return sized(spec)

    def _clear(self) -> None:
        """Do nothing: there is nothing to clear."""

    def _finish(self, *, partial: bool) -> None:
        """Do nothing: no output was written."""
