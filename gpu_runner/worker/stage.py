"""One workload on stage: inputs drawn afresh, master copies, expected values, and the buffers a candidate sees."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch

from forewarp.core.values import Tolerance
from forewarp.gpu_runner.worker.check import POISON_BYTE, Expected, Mismatch
from forewarp.gpu_runner.worker.problem import Problem, oracle, outputs_of, tensors_of


def fresh_seed() -> int:
    """Return a seed that no candidate can know."""
    return int.from_bytes(os.urandom(6), "little")


class Stage:
    """Buffers of one workload as the judge sees them.

    `slots` are the input values that the candidate gets, `mirrors` further buffers that must hold the same inputs (the
    anchor's). Expected values and master copies never leave this process.
    """

    def __init__(
        self,
        problem: Problem,
        model: torch.nn.Module,
        slots: Sequence[list[Any]],
        outputs: Sequence[torch.Tensor],
        tolerance: Tolerance | None,
        mirrors: Sequence[Sequence[list[Any]]] = (),
        close: Callable[[], None] | None = None,
    ) -> None:
        self.problem, self.model, self.tolerance = problem, model, tolerance
        self.slots, self.outputs, self.mirrors = slots, outputs, mirrors
        self.device = outputs[0].device.type
        self.oracle = ""
        self._close = close
        self._masters: list[list[torch.Tensor]] = []
        self._expected: list[Expected] = []
        for slot in range(len(slots)):
            self._masters.append([])
            self._expected.append(self.draw(slot))

    @property
    def slot_count(self) -> int:
        """Number of input sets."""
        return len(self.slots)

    def draw(self, slot: int) -> Expected:
        """Fill a slot with new random inputs, and return what is expected of them."""
        values = self.problem.inputs(fresh_seed(), self.device)
        exact, self.oracle = oracle(self.model, values)
        self._masters[slot] = [t.clone() for t in tensors_of(values)]
        for copies in (self.slots, *self.mirrors):
            _fill(copies[slot], self._masters[slot])
        return Expected(exact, outputs_of(self.model(*values)), self.tolerance)

    def redraw(self, slot: int) -> None:
        """Replace a slot's inputs by new ones."""
        self._expected[slot] = self.draw(slot)

    def poison(self) -> None:
        """Make every output element a value that never passes."""
        for output in self.outputs:
            _bits(output).fill_(POISON_BYTE)

    def spoil_inputs(self, slot: int) -> None:
        """Overwrite a slot's inputs, after checking that the candidate left them as they were."""
        self._check_slot(slot)
        for tensor in tensors_of(self.slots[slot]):
            tensor.zero_()

    def restore_inputs(self, slot: int) -> None:
        """Put a slot's inputs back."""
        _fill(self.slots[slot], self._masters[slot])

    def check_inputs(self) -> None:
        """Raise `Mismatch` if any input was changed."""
        for slot in range(self.slot_count):
            self._check_slot(slot)

    def _check_slot(self, slot: int) -> None:
        for index, (seen, master) in enumerate(zip(tensors_of(self.slots[slot]), self._masters[slot], strict=True)):
            if not torch.equal(_bits(seen), _bits(master)):
                raise Mismatch(f"the candidate changed its input {index}, which it must leave as it was")

    def compare(self, slot: int) -> float:
        """Compare the outputs with what this slot's inputs call for; raises `Mismatch`."""
        return self._expected[slot].compare(self.outputs)

    def close(self) -> None:
        """Let go of what belongs to this workload only."""
        if self._close is not None:
            self._close()


def _fill(values: Sequence[Any], masters: Sequence[torch.Tensor]) -> None:
    for tensor, master in zip(tensors_of(values), masters, strict=True):
        tensor.copy_(master)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    """See a tensor as bytes, so that NaN equals itself."""
    return tensor.view(-1).view(torch.uint8)
