"""One workload on stage: inputs drawn afresh, master copies, expected values, and the buffers that both arms see."""

from __future__ import annotations

import math
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from forewarp.core.values import Tolerance
from forewarp.gpu_runner.worker import memory
from forewarp.gpu_runner.worker import perturb as perturbations
from forewarp.gpu_runner.worker.check import POISON_BYTE, Digest, Expected, Mismatch, is_integral, same_bytes
from forewarp.gpu_runner.worker.guards import Guards
from forewarp.gpu_runner.worker.oracle import expect_alike
from forewarp.gpu_runner.worker.problem import Problem, copies, dtype_name, running_reference, tensors_of, with_tensors
from forewarp.gpu_runner.worker.state import State

FRESH_CASES = 1
"""Ordinary draws in `Stage.cases`; at least three more are compared while and after timing runs."""
SLOW_COMPARISON_S = 1.0
"""Where working out what is expected and comparing it take longer, only the perturbations that tell most are tried."""
MOST_SHIFTS = 8
"""Shifts of inputs after which they are drawn anew: to compare, all have to be made again."""
CHEAP_DRAW_S = 0.005
"""A draw of inputs that takes no longer is made anew for every timed call."""
_RUN_BYTES = 64
"""Bytes of inputs that stay together where they are changed: what a processor reads at once."""
_PIECE = 1 << 24
"""Elements that are shifted at a time where memory is short."""
_BITS = {2: torch.int16, 4: torch.int32, 8: torch.int64}
"""Integers of the size of a float, in bytes."""


def fresh_seed() -> int:
    return int.from_bytes(os.urandom(6), "little")


@dataclass(slots=True)
class Drawn:
    """One set of input values, tensors contiguous, with what is expected of them once that was asked for.

    While a candidate runs on inputs for the first time, nobody has worked out yet what it should find: device code
    could look for it in the memory that it shares with the launcher. `seed` draws the same values again, and `shifts`
    are what was done to them since: a distance and a factor for each float tensor, by position. Where memory is short,
    `values` are None until they are asked for, `digests` tell whether tensors are as they were, and `kept` are copies
    of those that the reference writes to. `call_seed` seeds torch before each call, `after` is the reference's state
    after one.
    """

    values: list[Any] | None
    seed: int | None = None
    shifts: list[dict[int, tuple[int, float]]] = field(default_factory=list[dict[int, tuple[int, float]]])
    expected: Expected | None = None
    digests: list[int] = field(default_factory=list[int])
    kept: dict[int, torch.Tensor] = field(default_factory=dict[int, torch.Tensor])
    call_seed: int = field(default_factory=fresh_seed)
    after: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])


@dataclass(frozen=True, slots=True)
class ArmBuffers:
    """Buffers of one arm: input values by slot, outputs, and by name what a call changes of the reference's state.

    `rooms` are poisoned in place of outputs whose place is drawn only once the call has ended.
    """

    slots: Sequence[list[Any]]
    outputs: Sequence[torch.Tensor] = ()
    states: Mapping[str, torch.Tensor] = field(default_factory=dict[str, torch.Tensor])
    rooms: Sequence[torch.Tensor] = ()


class Stage:
    """Buffers of one workload as the judge sees them.

    An `anchor` without buffers of its own is the reference in this process, or shares the candidate's. `written` are
    the positions, among the input tensors, that the reference writes to: they are put back before every call, and
    compared after it. `aliases` gives for an output the written input in whose buffer device-only code leaves it.
    `perturb` is false where changed inputs would mean nothing. The candidate's code may share this process's address
    space (`shared`; by default without an anchor's buffers). The anchor's outputs are poisoned as the candidate's are:
    what was just written to is slower, or faster, to write to again.

    With `state_in_place`, the arms' states are what their kernels read and write, and are put back before a call;
    otherwise they are poisoned, and what the candidate leaves so counts as not there. `call_seed` seeds torch before
    every call; left out, each draw of inputs has its own. `lean`, by default where inputs are large, keeps no copies of
    inputs: it draws them again from their seeds, and tells by digests whether they are as they were.
    """

    def __init__(
        self,
        problem: Problem,
        model: torch.nn.Module,
        candidate: ArmBuffers,
        tolerance: Tolerance | None,
        anchor: ArmBuffers | None = None,
        *,
        close: Callable[[], None] | None = None,
        written: Sequence[int] = (),
        aliases: Mapping[str, int] | None = None,
        guards: Guards | None = None,
        perturb: bool = True,
        state_in_place: bool = False,
        shared: bool | None = None,
        call_seed: int | None = None,
        lean: bool | None = None,
    ) -> None:
        self.problem, self.model, self.tolerance = problem, model, tolerance
        self.candidate, self.anchor = candidate, anchor
        self.slots, self.outputs, self.states = candidate.slots, candidate.outputs, candidate.states
        self.written, self.perturb, self.aliases = tuple(written), perturb, aliases or {}
        self.allow_tf32, self.slot_count = False, len(candidate.slots)
        # Whether a module has to be made ready for each call: its state put back, or torch seeded.
        self.prepares_calls = bool(problem.state) or problem.random
        self.renewals = 0
        self.device = next(t.device.type for t in (*self.outputs, *tensors_of(self.slots[0])))
        self._in_place, self._call_seed, self._close, self._guards = state_in_place, call_seed, close, guards
        self._state = State(model, problem.state)
        self._absent: set[str] = set()
        self._rows_whole = any(is_integral(o) for o in self.outputs)
        self._check = problem.checker()
        self.oracle = "" if self._check is None else "the task's own check"
        self._left: list[torch.Tensor] | None = None
        self._compare_s = 0.0
        self._digest = Digest()
        alike, self._draw_s, self._shiftable = self._draw_twice()
        # Where candidate and masters share an address space, masters may have to be drawn again; inputs that depend on
        # more than torch's seed cannot be.
        self._shared = anchor is None if shared is None else shared
        self._again = self._shared and alike
        inputs = tensors_of(self.slots[0])
        self.lean = (memory.is_large(sum(t.nbytes for t in inputs), self.device) if lean is None else lean) and alike
        changing = sum(inputs[i].nbytes for i in self._shiftable)
        self._touchable = perturb and 2 * changing > sum(t.nbytes for t in inputs)
        self._pieces = memory.in_pieces(_wide_bytes(inputs), _wide_bytes(self.outputs), self.device)
        self._drawn = [Drawn(None) for _ in self.slots]
        for slot in range(self.slot_count):
            self._install(slot, self._draw())

    def redraw(self, slot: int, arm: str = "candidate") -> None:
        """Replace a slot's inputs by new ones; the buffers of the arm that is to run come last, whichever it is."""
        if self.lean:
            self._drawn[slot] = Drawn(None)  # before the next are made
        self._install(slot, self._draw(), arm)

    def _inputs_of_both(self, slot: int, arm: str) -> list[list[torch.Tensor]]:
        """Return the tensors of a slot's inputs for both arms, the one that is to run last."""
        both = [self.slots] if self.anchor is None else [self.anchor.slots, self.slots]
        return [tensors_of(slots[slot]) for slots in (both if arm == "candidate" else reversed(both))]

    def renew(self, slot: int, arm: str = "candidate") -> None:
        """Give a slot inputs on which no earlier result is right: new ones, or changed ones where these are dear.

        Changed ones are second best: in a shared address space, device code could find what the anchor made of nearly
        the same inputs.
        """
        self.renewals += 1
        drawn = self._drawn[slot]
        cheap = self._draw_s <= CHEAP_DRAW_S or len(drawn.shifts) >= MOST_SHIFTS or not self._touchable
        (self.redraw if cheap else self.touch)(slot, arm)

    def _draw_twice(self) -> tuple[bool, float, frozenset[int]]:
        """Draw from one seed twice; return whether both are alike, the quicker one's seconds, and what shifts."""
        seed, seconds = fresh_seed(), list[float]()
        digests: list[list[int]] = []
        shiftable = frozenset[int]()
        for _ in range(2):
            start = time.perf_counter()
            values = self._values(seed)
            if self.device == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
            digests.append([self._digest.of(t) for t in tensors_of(values)])
            if len(digests) == 2:  # looking takes as long as drawing
                shiftable = frozenset(i for i, t in enumerate(tensors_of(values)) if _changes(t))
            del values
        return digests[0] == digests[1], min(seconds), shiftable

    def touch(self, slot: int, arm: str = "candidate") -> None:
        """Draw the float inputs anew from their own values, in runs of a cache line, each shrunk by up to 1.6 %.

        No result of an earlier call is right any more: enough, at little cost, against results kept by address or by a
        look at single elements, sums or extremes. Rows stay whole where the reference returns integers, because ties
        within one leave its choice open. What cannot be changed so stays as it is; so does all where that is half of
        the bytes or more.
        """
        if not self._touchable:
            return
        drawn = self._drawn[slot]
        drawn.expected = None
        if self.lean:
            self._check_slot(slot)  # what is changed in place must be what it was
            drawn.values = None
        shifts: dict[int, tuple[int, float]] = {}
        masters = drawn.kept if drawn.values is None else dict(enumerate(tensors_of(drawn.values)))
        both = self._inputs_of_both(slot, arm)
        for index, seen in enumerate(tensors_of(self.slots[slot])):
            if index not in self._shiftable:
                continue
            distance, shrunk = int.from_bytes(os.urandom(6), "little"), 1.0 - random.random() / 128
            shifts[index] = distance, shrunk
            master = masters.get(index)
            if master is not None:
                _shift(master, distance, shrunk, pieces=self.lean, rows=self._rows_whole)
            for buffers in both:
                if master is None:
                    # The others are copies, in case that two addresses are of one memory.
                    master = buffers[index]
                    _shift(master, distance, shrunk, pieces=True, rows=self._rows_whole)
                else:
                    buffers[index].copy_(master)
            if self.lean:
                drawn.digests[index] = self._digest.of(seen)
        drawn.shifts.append(shifts)

    def cases(self, slot: int = 0, *, thorough: bool = True) -> Iterator[str]:
        """Fill a slot with one correctness case after another, last a fresh draw, and yield each one's name.

        Fresh draws come first, then perturbations that mean something to the reference: only those that tell most
        without `thorough`, and where a comparison takes over `SLOW_COMPARISON_S`.
        """
        for _ in range(FRESH_CASES):
            self.redraw(slot)
            yield "fresh inputs"
        if self.perturb:
            made = list[Drawn]()
            count, slow = len(self.outputs), self._compare_s > SLOW_COMPARISON_S

            def draw() -> list[Any]:
                made.clear()  # before the next are made
                return self._inputs(fresh_seed())

            def expect_drawn(values: Sequence[Any], scales: Sequence[float]) -> Expected:
                made.append(Drawn(with_tensors(values, torch.Tensor.contiguous)))
                return self._expect(made[-1], [*scales[:count], *(0.0 for _ in self.states), *scales[count:]])

            # But for the state: a counter says nothing of the outputs' kind.
            usual = self._called_for(self._drawn[slot], None, ()) if self.states else self._expected(slot)
            changed = perturbations.cases(usual, draw, expect_drawn, self.problem.module, telling=not thorough or slow)
            del usual  # it may be large
            self.release(slot)
            for name, values, expected in changed:
                self._install(slot, made.pop())
                del values, expected
                yield name
                if self.lean:
                    self._drawn[slot] = Drawn(None)  # before the next are made
        self.redraw(slot)

    def seed_of(self, slot: int) -> int | None:
        """Return what torch is to be seeded with before a call on a slot; None where nothing random is drawn."""
        return self._seed_for(self._drawn[slot]) if self.problem.random else None

    def _seed_for(self, drawn: Drawn) -> int:
        return drawn.call_seed if self._call_seed is None else self._call_seed

    def state_checks(self) -> list[str]:
        """Return which of the state that the reference changes was compared, and which the candidate does not have."""
        here = [name for name in self.problem.state if name in self.states and name not in self._absent]
        gone = [name for name in self.problem.state if name not in here]
        said = [f"state compared: {', '.join(here)}"] if here else []
        return [*said, f"state not compared, the candidate has no such buffers: {', '.join(gone)}"] if gone else said

    def _inputs(self, seed: int) -> list[Any]:
        with running_reference("drawing the task's inputs"):
            return self.problem.inputs(seed, self.device)

    def _values(self, seed: int) -> list[Any]:
        return with_tensors(self._inputs(seed), torch.Tensor.contiguous)

    def _draw(self) -> Drawn:
        seed = fresh_seed()
        return Drawn(self._values(seed), seed)

    def _given(self, drawn: Drawn) -> list[Any]:
        """Return the values that were drawn and shifted, drawn and shifted again where they were not kept."""
        if drawn.values is None:
            assert drawn.seed is not None, "inputs that no seed gives are kept"
            drawn.values = self._values(drawn.seed)
            tensors = tensors_of(drawn.values)
            for shifts in drawn.shifts:
                for index, shift in shifts.items():
                    _shift(tensors[index], *shift, pieces=self.lean, rows=self._rows_whole)
        return drawn.values

    def _expected(self, slot: int) -> Expected:
        return self._drawn[slot].expected or self._expect(self._drawn[slot])

    def release(self, slot: int) -> None:
        """Where memory is short, let go of what can be worked out again from a slot's seed."""
        drawn = self._drawn[slot]
        if self.lean and drawn.seed is not None:
            drawn.values = drawn.expected = None

    def check_described(self) -> None:
        """Raise `ReferenceFailed` if the reference does not return what was described, on the inputs of some slot."""
        for slot in range(self.slot_count):
            self._expected(slot)

    def _expect(self, drawn: Drawn, scales: Sequence[float] | None = None) -> Expected:
        drawn.expected = self._called_for(drawn, scales, list(self.states))
        drawn.after = self._state.now() if self.states else {}
        return drawn.expected

    def _called_for(self, drawn: Drawn, scales: Sequence[float] | None, compared: Sequence[str]) -> Expected:
        expected, self.oracle = expect_alike(
            *(self.problem, self.model, self._state, self._given(drawn), self.tolerance, self.written, scales),
            compared=compared,
            seed=self._seed_for(drawn),
            allow_tf32=self.allow_tf32,
            pieces=self._pieces,
        )
        return expected

    def _install(self, slot: int, drawn: Drawn, arm: str = "candidate") -> None:
        self._drawn[slot] = drawn
        inputs = tensors_of(self._given(drawn))
        for buffers in self._inputs_of_both(slot, arm):
            for buffer, master in zip(buffers, inputs, strict=True):
                buffer.copy_(master)
        if self.lean:
            drawn.digests = [self._digest.of(t) for t in inputs]
            drawn.kept = {i: inputs[i].clone() for i in self.written}
            del inputs
            self.release(slot)

    def prepare(self, slot: int, arm: str = "candidate") -> None:
        """Make ready for a call of an arm: poison its outputs, put back its state and the inputs that it writes to."""
        self.release(slot)
        own = self.candidate if arm == "candidate" else self.anchor
        if own is self.candidate:
            self._left = None
        if own is None:  # the reference runs in this process
            self._state.put_back()
            if (seed := self.seed_of(slot)) is not None:
                torch.manual_seed(seed)
        else:
            _poison(own.rooms or own.outputs)
            if not self._in_place:
                _poison(list(own.states.values()))
            for name, buffer in own.states.items() if self._in_place else ():
                buffer.copy_(self._state.saved[name])
        if self.written:
            tensors, drawn = tensors_of((own or self.candidate).slots[slot]), self._drawn[slot]
            masters = drawn.kept or dict(enumerate(tensors_of(self._given(drawn))))
            for index in self.written:
                tensors[index].copy_(masters[index])

    def restored_state(self, arm: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return what the state that an arm changes in place is to be before each call, and where it lies."""
        own = self.candidate if arm == "candidate" else self.anchor
        states = {} if own is None else own.states
        return [(self._state.saved[name].contiguous(), buffer) for name, buffer in states.items()]

    def spoil_inputs(self, slot: int) -> None:
        """Overwrite a slot's inputs, after checking that the candidate left them as they were.

        Where device code could have changed the masters too, they are drawn again first. Inputs that the reference
        writes stay.
        """
        drawn = self._drawn[slot]
        if self._again and drawn.seed is not None:
            drawn.values = None
        self._check_slot(slot)
        tensors = tensors_of(self.slots[slot])
        self._left = [tensors[i].clone() for i in self.written]
        for index, tensor in enumerate(tensors):
            if index not in self.written:
                tensor.zero_()

    def restore_inputs(self, slot: int) -> None:
        """Put a slot's inputs back, but for those that the reference writes."""
        masters = tensors_of(self._given(self._drawn[slot]))
        for index, (tensor, master) in enumerate(zip(tensors_of(self.slots[slot]), masters, strict=True)):
            if index not in self.written:
                tensor.copy_(master)

    def check_inputs(self) -> None:
        """Raise `Mismatch` if any input was changed that must stay as it was."""
        for slot in range(self.slot_count):
            self._check_slot(slot)

    def _check_slot(self, slot: int) -> None:
        drawn = self._drawn[slot]
        masters = [] if self.lean else tensors_of(self._given(drawn))
        for index, seen in enumerate(tensors_of(self.slots[slot])):
            if index in self.written:
                continue
            same = self._digest.of(seen) == drawn.digests[index] if self.lean else same_bytes(seen, masters[index])
            if not same:
                raise Mismatch(f"the candidate changed its input {index}, which it must leave as it was")

    def results(self, slot: int, outputs: Sequence[torch.Tensor] | None = None) -> list[torch.Tensor]:
        """Return the buffers with the candidate's results, or the anchor's `outputs`; then written inputs."""
        arm = self.candidate if outputs is None else self.anchor
        states = {} if arm is None else arm.states
        tensors = tensors_of((arm or self.candidate).slots[slot])
        own = list(self.outputs if outputs is None else outputs)
        for output, source in self.aliases.items():
            own[int(output)] = tensors[source]
        return [t.contiguous() for t in (*own, *self._left_in(states, slot), *(tensors[i] for i in self.written))]

    def _left_in(self, states: Mapping[str, torch.Tensor], slot: int) -> Iterator[torch.Tensor]:
        """Yield what a call left as its state; the reference's own where there is no such buffer."""
        for name in self.states:
            buffer = states.get(name)
            if buffer is not None and (self._in_place or not _poisoned(buffer)):
                yield buffer
                continue
            if states is self.states:
                self._absent.add(name)
            self._expected(slot)
            yield self._drawn[slot].after[name]

    def compare(self, slot: int, outputs: Sequence[torch.Tensor] | None = None) -> float:
        """Compare results with what this slot's inputs call for; raises `Mismatch`, returns the largest error ratio."""
        results = self.results(slot, outputs)
        if self._left is not None and outputs is None:
            left = results[len(results) - len(self.written) :]
            for index, now, before in zip(self.written, left, self._left, strict=True):
                if not same_bytes(now, before):
                    raise Mismatch(f"the candidate went on writing to its input {index} after its call had ended")
        if self._check is not None:
            if (seed := self.seed_of(slot)) is not None:
                torch.manual_seed(seed)
            said = self._check(copies(self._given(self._drawn[slot])), list(results[: len(self.outputs)]))
            if said:
                raise Mismatch(said)
            return 0.0
        start = time.perf_counter()
        try:
            return self._expected(slot).compare(results)
        except Mismatch as e:
            raise Mismatch(self._named(str(e))) from None
        finally:
            self._compare_s = time.perf_counter() - start

    def _named(self, message: str) -> str:
        """Name the buffer where a message counts the state among the outputs."""
        for position, name in enumerate(self.states, len(self.outputs)):
            message = re.sub(rf"^output {position}\b", f"the buffer {name}", message)
        return message

    def error(self, slot: int) -> float | None:
        """Return the largest error of the results; None where it is not finite, or the task's check decides."""
        if self._check is not None:
            return None
        error = self._expected(slot).error(self.results(slot))
        return error if math.isfinite(error) else None

    def kernelbench_allclose(self, slot: int) -> bool:
        """Return what KernelBench's own check says of the results, for information; false where the task's decides."""
        return self._check is None and self._expected(slot).kernelbench_allclose(self.results(slot))

    def snapshot(self, slot: int) -> list[int]:
        """Return digests of the results of the call just made: equal ones are of equal bits."""
        return [self._digest.of(t) for t in self.results(slot)]

    def check_guards(self) -> None:
        if self._guards is not None:
            self._guards.check()

    def check_reference(self) -> None:
        """Raise `Mismatch` if the reference's weights are no longer those that its seed gives."""
        if not self._shared:
            return  # out of the candidate's reach
        seen = self._weights(self.model)
        one = self._weights(self.problem.model(self.device))
        if one != seen and one == self._weights(self.problem.model(self.device)):
            raise Mismatch("the candidate changed the weights of the reference")

    def _weights(self, model: torch.nn.Module) -> list[int]:
        held = model.state_dict().items()
        return [self._digest.of(t.contiguous()) for name, t in held if name not in self.problem.state]

    def close(self) -> None:
        if self._close is not None:
            self._close()


def _wide_bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(t.numel() * memory.wide_item_bytes(dtype_name(t)) for t in tensors)


def _changes(tensor: torch.Tensor) -> bool:
    """Return whether `_shift` makes another tensor of it, of the same kind."""
    able = tensor.is_floating_point() and tensor.numel() > 1 and tensor.element_size() in _BITS
    return able and not perturbations.has_zeros(tensor) and not perturbations.is_symmetric(tensor)


def _shift(tensor: torch.Tensor, distance: int, shrunk: float, *, pieces: bool, rows: bool) -> None:
    """Draw short runs anew from among themselves (or rows in another order), and shrink each element by its own bits.

    `distance` seeds it. Runs lie in a cache line: where all moved alike, a look at one place told where the largest
    were. One factor for all would show, too: a norm or a sum of what was shifted is the old one, shrunk.
    """
    flat = tensor.view(-1)
    unit = tensor.shape[-1] if rows and tensor.dim() > 1 else 1
    run = unit if unit > 1 else max(1, _RUN_BYTES // tensor.element_size())
    width = 8 * tensor.element_size()
    odd = distance % 2 ** (width - 2) * 2 + 1
    chance = torch.Generator(tensor.device).manual_seed(distance)
    for piece in flat.split(max(_PIECE // unit, 1) * unit if pieces else flat.numel()):
        rolled = piece.roll((distance % max(1, piece.numel() // unit - 1) + 1) * unit)
        if (count := piece.numel() // run) > 1:
            # Rows may not come twice: a candidate could tell, and elements that were apart would be equal.
            order = (
                torch.randperm(count, generator=chance, device=tensor.device)
                if rows
                else torch.randint(count, (count,), generator=chance, device=tensor.device)
            )
            runs = rolled[: count * run].view(count, run)
            runs.copy_(runs.index_select(0, order))
        for part in rolled.split(_PIECE):
            chosen = (part.view(_BITS[part.element_size()]) * odd >> (width - 8)).float()  # -128 to 127
            part.mul_(chosen.mul_(-1 / 2**15).add_(shrunk - 1 / 256))
        piece.copy_(rolled)


def _poison(outputs: Sequence[torch.Tensor]) -> None:
    """Make every output element a value that never passes; outputs are dense, in any order of their dimensions."""
    for output in outputs:
        order = sorted(range(output.dim()), key=lambda d: -output.stride(d))
        output.permute(order).view(-1).view(torch.uint8).fill_(POISON_BYTE)


def _poisoned(buffer: torch.Tensor) -> bool:
    """Return whether a buffer is as `_poison` leaves it; one without elements never is."""
    flat = buffer.view(-1).view(torch.uint8)
    return flat.numel() > 0 and bool((flat == POISON_BYTE).all())
