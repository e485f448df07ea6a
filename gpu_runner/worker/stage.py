"""One workload on stage: inputs drawn afresh, master copies, expected values, and the buffers a candidate sees."""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from forewarp.core.values import Tolerance
from forewarp.gpu_runner.worker import perturb as perturbations
from forewarp.gpu_runner.worker.check import POISON_BYTE, Expected, Mismatch, repeated, same_bytes
from forewarp.gpu_runner.worker.problem import Problem, copies, oracle, outputs_of, tensors_of

FRESH_CASES = 1
"""Ordinary draws in `Stage.cases`; at least three more are compared while and after timing runs."""
CHEAP_DRAW_S = 0.005
"""A draw of inputs that takes no longer is made anew for every timed call."""


def fresh_seed() -> int:
    """Return a seed that no candidate can know."""
    return int.from_bytes(os.urandom(6), "little")


class Guards(Protocol):
    """Something that knows bytes which nobody may write to; see `guards`."""

    def check(self) -> None:
        """Raise `Mismatch` if any was overwritten."""
        ...


@dataclass(slots=True)
class Drawn:
    """One set of input values, tensors contiguous, with what is expected of them once that was asked for.

    While a candidate runs on inputs for the first time, nobody has worked out yet what it should find: device code
    could look for it in the memory that it shares with the launcher. `seed` draws the same values again; None once they
    were changed.
    """

    values: list[Any]
    seed: int | None = None
    expected: Expected | None = None

    @property
    def inputs(self) -> list[torch.Tensor]:
        """The tensors among the values."""
        return tensors_of(self.values)


class WithWritten(torch.nn.Module):
    """A reference that also returns the inputs that it writes to, as they are after the call."""

    def __init__(self, model: torch.nn.Module, written: Sequence[int]) -> None:
        super().__init__()
        self.model, self.written = model, tuple(written)

    def forward(self, *values: Any) -> list[torch.Tensor]:
        """Return the outputs, then the written inputs."""
        outputs = outputs_of(self.model(*values))
        tensors = tensors_of(values)
        return [*outputs, *(tensors[i] for i in self.written)]


def expect(
    model: torch.nn.Module,
    values: Sequence[Any],
    tolerance: Tolerance | None,
    written: Sequence[int] = (),
    scales: Sequence[float] | None = None,
) -> tuple[Expected, str]:
    """Return what inputs call for and how the oracle was made; outputs first, then written inputs.

    The values stay as they are. The reference runs after the oracle, on copies of its own where it writes.
    """
    whole = WithWritten(model, written) if written else model
    exact, how = oracle(whole, values)
    reference = outputs_of(whole(*(copies(values) if written else values)))
    inputs = tensors_of(values)
    sizes = [t.numel() for t in (*inputs, *model.parameters(), *model.buffers())]
    return Expected(exact, reference, tolerance, scales, sizes, repeated(inputs)), how


class Stage:
    """Buffers of one workload as the judge sees them.

    `slots` are the input values that the candidate gets, `mirrors` further buffers that must hold the same inputs (the
    anchor's). `written` are the positions, among the tensors of the inputs, that the reference writes to: they are put
    back before every call, and compared after it as outputs are. `aliases` gives for an output, by position, the
    written input in whose buffer device-only code leaves it; a module's result is copied out instead. `guards` knows
    bytes that nobody may write to. `perturb` is false where changed inputs would mean nothing to the reference.
    Expected values and master copies never leave this process. `mirror_outputs` are the anchor's, poisoned as the
    candidate's are: what was just written to is slower, or faster, to write to again.
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
        written: Sequence[int] = (),
        aliases: Mapping[str, int] | None = None,
        guards: Guards | None = None,
        perturb: bool = True,
        mirror_outputs: Sequence[torch.Tensor] = (),
    ) -> None:
        self.mirror_outputs = mirror_outputs
        self.problem, self.model, self.tolerance = problem, model, tolerance
        self.slots, self.outputs, self.mirrors = slots, outputs, mirrors
        self.written, self.perturb = tuple(written), perturb
        self.aliases = aliases or {}
        self.device = outputs[0].device.type
        self._close, self._guards = close, guards
        self._check = problem.checker()
        self.oracle = "" if self._check is None else "the task's own check"
        self._left: list[torch.Tensor] | None = None
        self._drawn: list[Drawn] = []
        for slot in range(len(slots)):
            self._drawn.append(self._draw())
            self._install(slot, self._drawn[slot])
        one, other, self._draw_s = self._draw_twice()
        # Without mirrors, candidate and masters share an address space. Inputs that depend on more than torch's seed
        # cannot be drawn again.
        self._again = not mirrors and _alike(one, other)

    @property
    def slot_count(self) -> int:
        """Number of input sets."""
        return len(self.slots)

    def redraw(self, slot: int, arm: str = "candidate") -> None:
        """Replace a slot's inputs by new ones; the buffers of the arm that is to run come last, whichever it is."""
        self._install(slot, self._draw(), arm)

    def _buffers(self, arm: str) -> list[Sequence[list[Any]]]:
        return [*self.mirrors, self.slots] if arm == "candidate" else [self.slots, *self.mirrors]

    def renew(self, slot: int, arm: str = "candidate") -> None:
        """Give a slot inputs on which no earlier result is right: new ones, or changed ones where these are dear.

        Where candidate and judge share an address space, what the anchor made of nearly the same inputs may still lie
        in memory, and device code could find it there; so changed ones are second best.
        """
        (self.redraw if self._draw_s <= CHEAP_DRAW_S else self.touch)(slot, arm)

    def _draw_twice(self) -> tuple[list[Any], list[Any], float]:
        """Draw from one seed twice; return both draws, and the seconds of the quicker one."""
        seed, seconds = fresh_seed(), list[float]()
        draws: list[list[Any]] = []
        for _ in range(2):
            start = time.perf_counter()
            draws.append(self._draw_from(seed))
            if self.device == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
        return draws[0], draws[1], min(seconds)

    def touch(self, slot: int, arm: str = "candidate") -> None:
        """Shift the float inputs by a random distance and shrink them by up to 1.6 %.

        No result of an earlier call is right any more. Far cheaper than a new draw, and enough against results that are
        kept by address or by a look at the contents, whatever the look takes in: single elements, sums or extremes.
        """
        if not self.perturb:
            return
        drawn = self._drawn[slot]
        drawn.expected = drawn.seed = None
        for index, master in enumerate(drawn.inputs):
            if master.is_floating_point() and master.numel() > 1:
                distance = int.from_bytes(os.urandom(6), "little") % (master.numel() - 1) + 1
                flat = master.view(-1)
                flat.copy_(flat.roll(distance).mul_(1.0 - random.random() / 64))
                for buffers in self._buffers(arm):
                    tensors_of(buffers[slot])[index].copy_(master)

    def cases(self, slot: int = 0, *, thorough: bool = True) -> Iterator[str]:
        """Fill a slot with one correctness case after another, and yield each one's name.

        Fresh draws come first, then perturbations of a draw that mean something to the reference. After the last, the
        slot holds a fresh draw. Without `thorough`, one draw and, on a GPU, where they cost little, the perturbations
        that tell most.
        """
        for _ in range(FRESH_CASES):
            self.redraw(slot)
            yield "fresh inputs"
        if self.perturb and (thorough or self.device == "cuda"):
            usual = self._expected(slot)
            module = self.problem.module
            for name, values, expected in perturbations.cases(
                usual, self._values, self._expect, module, telling=not thorough
            ):
                self._install(slot, Drawn(_contiguous(values), None, expected))
                yield name
        self.redraw(slot)

    def _values(self) -> list[Any]:
        return self.problem.inputs(fresh_seed(), self.device)

    def _draw(self) -> Drawn:
        seed = fresh_seed()
        return Drawn(self._draw_from(seed), seed)

    def _draw_from(self, seed: int) -> list[Any]:
        return _contiguous(self.problem.inputs(seed, self.device))

    def _expected(self, slot: int) -> Expected:
        drawn = self._drawn[slot]
        if drawn.expected is None:
            drawn.expected = self._expect(drawn.values)
        return drawn.expected

    def _expect(self, values: Sequence[Any], scales: Sequence[float] | None = None) -> Expected:
        expected, self.oracle = expect(self.model, values, self.tolerance, self.written, scales)
        return expected

    def _install(self, slot: int, drawn: Drawn, arm: str = "candidate") -> None:
        self._drawn[slot] = drawn
        for buffers in self._buffers(arm):
            _fill(buffers[slot], drawn.inputs)

    def prepare(self, slot: int) -> None:
        """Make ready for a call of the candidate: poison the outputs, put back the inputs that the reference writes."""
        self._left = None
        _poison(self.outputs)
        self._put_back(self.slots[slot], slot)

    def prepare_anchor(self, slot: int) -> None:
        """Make ready for a call of the anchor, likewise."""
        _poison(self.mirror_outputs)
        for buffers in self.mirrors or (self.slots,):
            self._put_back(buffers[slot], slot)

    def _put_back(self, values: Sequence[Any], slot: int) -> None:
        if self.written:
            tensors = tensors_of(values)
            for index in self.written:
                tensors[index].copy_(self._drawn[slot].inputs[index])

    def spoil_inputs(self, slot: int) -> None:
        """Overwrite a slot's inputs, after checking that the candidate left them as they were.

        Where device code could have found and changed the masters too, they are drawn again first.
        Inputs that the reference writes stay: they are results by now, and `compare` sees that they stay as they are.
        """
        drawn = self._drawn[slot]
        if self._again and drawn.seed is not None:
            drawn.values = self._draw_from(drawn.seed)
        self._check_slot(slot)
        tensors = tensors_of(self.slots[slot])
        self._left = [tensors[i].clone() for i in self.written]
        for index, tensor in enumerate(tensors):
            if index not in self.written:
                tensor.zero_()

    def restore_inputs(self, slot: int) -> None:
        """Put a slot's inputs back, but for those that the reference writes."""
        for index, (tensor, master) in enumerate(self._pairs(slot)):
            if index not in self.written:
                tensor.copy_(master)

    def check_inputs(self) -> None:
        """Raise `Mismatch` if any input was changed that must stay as it was."""
        for slot in range(self.slot_count):
            self._check_slot(slot)

    def _check_slot(self, slot: int) -> None:
        for index, (seen, master) in enumerate(self._pairs(slot)):
            if index not in self.written and not same_bytes(seen, master):
                raise Mismatch(f"the candidate changed its input {index}, which it must leave as it was")

    def _pairs(self, slot: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        return zip(tensors_of(self.slots[slot]), self._drawn[slot].inputs, strict=True)

    def results(self, slot: int, outputs: Sequence[torch.Tensor] | None = None) -> list[torch.Tensor]:
        """Return the buffers that hold results: outputs, then written inputs of this slot.

        They are the candidate's; the anchor's, where its `outputs` are given.
        """
        tensors = tensors_of((self.mirrors[0] if self.mirrors and outputs is not None else self.slots)[slot])
        own = list(self.outputs if outputs is None else outputs)
        for output, source in self.aliases.items():
            own[int(output)] = tensors[source]
        return [*own, *(tensors[i] for i in self.written)]

    def compare(self, slot: int, outputs: Sequence[torch.Tensor] | None = None) -> float:
        """Compare the results, or other outputs, with what this slot's inputs call for; raises `Mismatch`.

        Returns the largest error as a share of what is allowed; 0 where the task's own check decides.
        """
        results = self.results(slot, outputs)
        if self._left is not None and outputs is None:
            for index, now, before in zip(self.written, results[len(self.outputs) :], self._left, strict=True):
                if not same_bytes(now, before):
                    raise Mismatch(f"the candidate went on writing to its input {index} after its call had ended")
        if self._check is not None:
            said = self._check(copies(self._drawn[slot].values), list(results[: len(self.outputs)]))
            if said:
                raise Mismatch(said)
            return 0.0
        return self._expected(slot).compare(results)

    def error(self, slot: int) -> float | None:
        """Return the largest error of the results as `compare` does, however large; None where there is none to give.

        That is so where they are not finite as they should be, or where the task's own check decides.
        """
        if self._check is not None:
            return None
        error = self._expected(slot).error(self.results(slot))
        return error if math.isfinite(error) else None

    @property
    def judged_by_oracle(self) -> bool:
        """Whether elements are compared with an oracle's; otherwise the task brings a check of its own."""
        return self._check is None

    def kernelbench_allclose(self, slot: int) -> bool:
        """Return what KernelBench's own check says of the results; for information."""
        return self._expected(slot).kernelbench_allclose(self.results(slot))

    def snapshot(self, slot: int) -> list[torch.Tensor]:
        """Return copies of the results of the call just made, for `same_bits`."""
        return [t.clone() for t in self.results(slot)]

    def same_bits(self, slot: int, snapshot: Sequence[torch.Tensor]) -> bool:
        """Return whether the results have the same bits as an earlier call's on the same slot."""
        return all(same_bytes(now, before) for now, before in zip(self.results(slot), snapshot, strict=True))

    def check_guards(self) -> None:
        """Raise `Mismatch` naming the buffer if bytes beside it were overwritten."""
        if self._guards is not None:
            self._guards.check()

    def check_reference(self) -> None:
        """Raise `Mismatch` if the reference's weights are no longer those that its seed gives."""
        if self.mirrors:
            return  # out of the candidate's reach
        one, other = (list(self.problem.model(self.device).state_dict().values()) for _ in range(2))
        if _alike(one, other) and not _alike(one, list(self.model.state_dict().values())):
            raise Mismatch("the candidate changed the weights of the reference")

    def close(self) -> None:
        """Let go of what belongs to this workload only."""
        if self._close is not None:
            self._close()


def _contiguous(values: Sequence[Any]) -> list[Any]:
    return [v.contiguous() if isinstance(v, torch.Tensor) else v for v in values]


def _alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Return whether two sets of values hold the same bytes."""
    pairs = zip(tensors_of(one), tensors_of(other), strict=True)
    return all(same_bytes(a.contiguous(), b.contiguous()) for a, b in pairs)


def _poison(outputs: Sequence[torch.Tensor]) -> None:
    """Make every output element a value that never passes."""
    for output in outputs:
        output.view(-1).view(torch.uint8).fill_(POISON_BYTE)


def _fill(values: Sequence[Any], masters: Sequence[torch.Tensor]) -> None:
    for tensor, master in zip(tensors_of(values), masters, strict=True):
        tensor.copy_(master)
