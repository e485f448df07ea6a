"""The memory that interpreted kernels see: every buffer lies terabytes from the next, and every access is looked at.

Pointers are made-up addresses, so one that leaves its buffer is known for what it is and changes nothing. What was seen
is gathered by place in the source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from forewarp.core.checking import Finding, FindingKind
from forewarp.inspection.emulation.interpreter.numerics import AnyArray
from forewarp.inspection.emulation.interpreter.order import MANY, Clocks, Shadow, several

SECTOR = 32
"""Bytes that a GPU's memory gives out at least."""
MOST_SECTORS = 2.0
"""Times the least number of sectors above which an access is worth a word."""
WORTH = 0.05
"""Share of a run's sectors that a place must waste to be worth a word."""
CALM, THEN_EVERY = 32, 16
"""Requests of one place whose sectors are all counted, and which of the later ones are."""


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """Place of an event: the kernel that was launched and the line of the source."""

    kernel: str
    line: int

    def __str__(self) -> str:
        return f"{self.kernel}, line {self.line}" if self.line else self.kernel


@dataclass(slots=True)
class Traffic:
    """Sectors that one place in the source asked for, and the least that would have done, over requests looked at."""

    requests: int = 0
    sectors: int = 0
    least: int = 0

    def wants_a_look(self) -> bool:
        """Count a request; return whether its sectors are to be counted, too."""
        self.requests += 1
        return self.requests <= CALM or self.requests % THEN_EVERY == 0

    def of_all(self, part: int) -> int:
        """Return what the requests looked at add up to, taken over all requests."""
        looked_at = min(self.requests, CALM) + max(0, self.requests // THEN_EVERY - CALM // THEN_EVERY)
        return round(part * self.requests / max(1, looked_at))


@dataclass(slots=True)
class Ledger:
    """Findings by kind and place, those that count only if outputs are wrong as `suspected`, and traffic by place."""

    seen: dict[tuple[str, str], Finding] = field(default_factory=dict[tuple[str, str], Finding])
    suspected: dict[tuple[str, str], Finding] = field(default_factory=dict[tuple[str, str], Finding])
    traffic: dict[tuple[SourcePlace, str], Traffic] = field(default_factory=dict[tuple[SourcePlace, str], Traffic])

    def note(self, kind: FindingKind, place: object, message: str, count: int, *, certain: bool = True) -> None:
        """Count something at a place; the first message stays."""
        known, key = self.seen if certain else self.suspected, (kind, str(place))
        first = known.get(key, Finding(kind, str(place), message, 0))
        known[key] = replace(first, count=first.count + count)

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth a word, faults first."""
        return (*self.seen.values(), *self._uncoalesced())

    def suspicions(self) -> tuple[Finding, ...]:
        """Return what was suspected at places that have no certain finding of the kind."""
        return tuple(finding for key, finding in self.suspected.items() if key not in self.seen)

    def _uncoalesced(self) -> Iterator[Finding]:
        total = sum(traffic.of_all(traffic.sectors) for traffic in self.traffic.values())
        for (place, verb), traffic in self.traffic.items():
            factor = traffic.sectors / max(1, traffic.least)
            if factor > MOST_SECTORS and traffic.of_all(traffic.sectors - traffic.least) > WORTH * total:
                message = (
                    f"{verb} {factor:.1f} times the sectors of {SECTOR} bytes that its elements would fit in; "
                    f"{traffic.of_all(traffic.sectors) / max(1, total):.0%} of all traffic comes from here"
                )
                yield Finding("uncoalesced", str(place), message, traffic.requests)


_SPAN = 44
"""Each buffer has 2**44 bytes of address to itself, and lies in their middle."""
_FIRST = 8
"""Number of the first such span: a process has real addresses below 2**47."""
_MIDDLE = 1 << (_SPAN - 1)
POISON = 0xFF
"""Every byte of what is read out of bounds; as a float, NaN."""

Mask = npt.NDArray[np.bool_]
Change = Callable[[AnyArray, AnyArray], AnyArray]
"""Given old elements and operands, return the new elements."""


class MemoryFault(Exception):
    """An access that ends a kernel on a GPU."""


class RealAddress(Exception):
    """An access to an address that a module got from a tensor by itself; nothing is known of what lies there."""


@dataclass(slots=True)
class Buffer:
    """Flat bytes that pointers may point to, in elements of `size` bytes.

    `written` says which hold anything yet, None for all. What is not `watched` is written by no program. `merged` are
    the elements that atomics changed, `stored_at` is where the last store came from.
    """

    name: str
    content: npt.NDArray[np.uint8]
    size: int
    base: int
    watched: bool = True
    written: Mask | None = None
    merged: Mask | None = None
    stored_at: SourcePlace | None = None
    shadow: Shadow = field(init=False)

    def __post_init__(self) -> None:
        self.shadow = Shadow(len(self.content) // self.size)

    def refine(self, size: int) -> None:
        """Keep records for smaller elements from now on; races before this are forgotten."""
        times = self.size // size
        self.size = size
        self.shadow = Shadow(len(self.content) // size)
        self.written = np.repeat(self.written, times) if self.written is not None else None
        self.merged = np.repeat(self.merged, times) if self.merged is not None else None


@dataclass(frozen=True, slots=True)
class BufferPart:
    """The elements (`members`, each of `size` bytes) of a buffer that are a tensor's; its pointer is at `first`."""

    size: int
    first: int
    members: Mask

    def lacks(self, at: AnyArray) -> Mask:
        """Return which byte offsets, within the buffer, are not the tensor's."""
        return ~self.members[np.minimum(at // self.size, len(self.members) - 1)]


@dataclass(frozen=True, slots=True)
class _Window:
    """Addresses that stand for a buffer where it is reached through one argument; its byte 0 is at `base`."""

    buffer: Buffer
    name: str
    base: int
    view: BufferPart | None = None


@dataclass(frozen=True, slots=True)
class WindowLanes:
    """The lanes of one access that fall into one window: `lanes` selects them, `at` holds their byte offsets."""

    window: _Window
    lanes: Mask | slice
    at: AnyArray

    @property
    def buffer(self) -> Buffer:
        """The buffer behind the window."""
        return self.window.buffer


class Memory:
    """All buffers of a run, the program that runs now, and what was found."""

    def __init__(self, place: Callable[[str], SourcePlace]) -> None:
        """`place` says where in the source, in the named kernel, an access comes from."""
        self.buffers: list[Buffer] = []
        self._windows: list[_Window] = []
        self._place_in = place
        self.ledger = Ledger()
        self.reach: dict[str, int] = {}
        """The most programs of a launch and passes of a loop, by their names in words."""
        self.kernel = ""
        self.program = ""
        self.clocks = Clocks(1)
        self.atomics = 0

    def add(self, name: str, content: npt.NDArray[np.uint8], size: int, *, watched: bool, filled: bool = True) -> int:
        """Make a buffer known and return its address; `filled` is false where nothing has been written to it yet."""
        base = self._next_base()
        written = None if filled else np.zeros(len(content) // size, np.bool_)
        self.buffers.append(Buffer(name, content, size, base, watched, written))
        self._windows.append(_Window(self.buffers[-1], name, base))
        return base

    def window(self, buffer: Buffer, name: str, view: BufferPart | None) -> int:
        """Return another address of a buffer, by which accesses through one argument, perhaps a view, are known."""
        base = self._next_base()
        self._windows.append(_Window(buffer, name, base, view))
        return base

    def _next_base(self) -> int:
        return ((len(self._windows) + _FIRST) << _SPAN) + _MIDDLE

    def forget(self) -> None:
        """Drop all buffers; what was found stays."""
        self.buffers.clear()
        self._windows.clear()

    def named(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)

    def forget_writes(self) -> None:
        """Go back to where nothing has been written to the buffers that were not filled."""
        for buffer in self.buffers:
            buffer.merged = None
            if buffer.written is not None:
                buffer.written[:] = False

    def notice_writes(self) -> None:
        """Take what holds anything but poison for written."""
        for buffer in self.buffers:
            if buffer.written is not None:
                rows = buffer.content[: len(buffer.written) * buffer.size].reshape(-1, buffer.size)
                buffer.written |= (rows != np.uint8(POISON)).any(axis=1)

    def begin_launch(self, kernel: str, grid: Sequence[int]) -> None:
        self.kernel, self.clocks = kernel, Clocks(math.prod(grid))
        for axis, programs in enumerate(grid):
            self._count(f"programs of {kernel} along axis {axis}", programs)
        for buffer in self.buffers:
            buffer.shadow.clear()

    def begin_program(self, number: int, name: str) -> None:
        """Start a program, numbered from 1."""
        self.program, self.atomics = name, 0
        self.clocks.begin(number)

    def _place(self) -> SourcePlace:
        return self._place_in(self.kernel)

    def begin_loop(self, passes: int) -> None:
        self._count(f"passes of the loop at {self._place()}", passes)

    def _count(self, name: str, number: int) -> None:
        self.reach[name] = max(number, self.reach.get(name, 0))

    def load(self, addresses: AnyArray, mask: Mask, other: AnyArray, *, volatile: bool = False) -> AnyArray:
        """Return what lies at the addresses, `other` where the mask is false."""
        kind = other.dtype
        result = np.array(np.broadcast_to(other, addresses.shape))
        poison = np.full(kind.itemsize, POISON, np.uint8).view(kind)[0] if kind != np.bool_ else np.bool_(True)
        for part in self._parts(addresses, mask, kind.itemsize, "loads"):
            inside, index = self._within(part, kind.itemsize, "loads")
            values = np.full(len(part.at), poison, kind)
            values[inside] = _view(part.buffer, kind)[index]
            if part.buffer.written is not None or part.buffer.watched:
                self._read(part.buffer, self._elements(part.buffer, part.at[inside], kind.itemsize), volatile)
            put(result, part.lanes, values)
        return result

    def store(self, addresses: AnyArray, values: AnyArray, mask: Mask) -> None:
        kind = values.dtype
        values = np.broadcast_to(values, addresses.shape)
        for part in self._parts(addresses, mask, kind.itemsize, "stores"):
            inside, index = self._within(part, kind.itemsize, "stores")
            mine = _take(values, part.lanes)[inside]
            view = _view(part.buffer, kind)
            elements = self._elements(part.buffer, part.at[inside], kind.itemsize)
            if part.buffer.watched:
                self._write(part.buffer, elements, _differ(view[index], mine))
            view[index] = mine
            twice = _differ(view[index], mine)
            if twice.any():
                self.ledger.note(
                    "race",
                    self._place(),
                    f"one store writes different values to element {int(index[twice][0])} of {part.buffer.name}",
                    int(twice.sum()),
                )
            if part.buffer.written is not None:
                part.buffer.written[elements] = True
                part.buffer.stored_at = self._place()

    def change(
        self, addresses: AnyArray, mask: Mask, values: AnyArray, apply: Change, order: tuple[bool, bool]
    ) -> AnyArray:
        """Atomically put `apply(old, value)` at each address; `order` is whether it acquires, and releases."""
        kind = values.dtype
        values = np.broadcast_to(values, addresses.shape)
        old = np.zeros(addresses.shape, kind)
        self.atomics += 1
        for part in self._parts(addresses, mask, kind.itemsize, "changes"):
            inside, index = self._within(part, kind.itemsize, "changes")
            alone = len(index) == 1 and len(part.at) == 1
            where = part.buffer.base + int(index[0]) * kind.itemsize if alone else 0
            if alone and order[0]:
                self.clocks.acquire(where)
            self._merge(part.buffer, self._elements(part.buffer, part.at[inside], kind.itemsize))
            before = np.zeros(len(part.at), kind)
            before[inside] = _one_by_one(_view(part.buffer, kind), index, _take(values, part.lanes)[inside], apply)
            put(old, part.lanes, before)
            if alone and order[1]:
                self.clocks.release(where)
        return old

    def _parts(self, addresses: AnyArray, mask: Mask, width: int, verb: str) -> Iterator[WindowLanes]:
        """Sort the lanes of an access by buffer; most have one."""
        whole = bool(mask.all())
        mask = np.broadcast_to(mask, addresses.shape)
        active = addresses.reshape(-1) if whole else addresses[mask]
        if not active.size:
            return
        regions = active >> np.uint64(_SPAN)
        first = int(regions[0])
        if (regions == regions[0]).all():
            yield self._part(first, active, slice(None) if whole else mask, width, verb)
            return
        everywhere = addresses >> np.uint64(_SPAN)
        for region in np.unique(regions):
            lanes = mask & (everywhere == region)
            yield self._part(int(region), addresses[lanes], lanes, width, verb)

    def _part(self, region: int, active: AnyArray, lanes: Mask | slice, width: int, verb: str) -> WindowLanes:
        if 1 <= region < _FIRST:
            raise RealAddress(f"{verb} at an address out of a table of pointers, which is not interpreted")
        if not _FIRST <= region < _FIRST + len(self._windows):
            raise MemoryFault(f"{verb} from an address that belongs to no buffer, in program {self.program}")
        window = self._windows[region - _FIRST]
        at = active.astype(np.int64) - np.int64(window.base)
        if active.size > 1:
            self._count_sectors(at, width, verb)
        return WindowLanes(window, lanes, at)

    def _within(self, part: WindowLanes, width: int, verb: str) -> tuple[Mask | slice, AnyArray]:
        """Return which lanes are in bounds, and the index of their elements; note the others."""
        at, buffer = part.at, part.buffer
        most = len(buffer.content) - width
        if at.min() >= 0 and at.max() <= most:
            inside: Mask | slice = slice(None)
        else:
            inside = (at >= 0) & (at <= most)
            message = self._beyond(part, at[~inside], width, verb)
            self.ledger.note("out of bounds", self._place(), message, int((~inside).sum()))
            at = at[inside]
        if (at & (width - 1)).any():
            raise MemoryFault(
                f"{verb} {width} bytes at an address that is no multiple of {width}, in {part.window.name}"
            )
        view = part.window.view
        if view is not None and at.size and (beside := view.lacks(at)).any():
            message = (
                f"{verb} {_elements_of(part, at[beside], width)}, which is a view of {view.members.sum()} elements and "
                f"does not have {'it' if beside.sum() == 1 else 'them'}; first in program {self.program}"
            )
            self.ledger.note("out of bounds", self._place(), message, int(beside.sum()), certain=False)
        return inside, at // width

    def _beyond(self, part: WindowLanes, outside: AnyArray, width: int, verb: str) -> str:
        """Put an access out of bounds into words."""
        holds = len(part.buffer.content) // width
        owner = "which" if part.window.view is None else "a view of a tensor that"
        return (
            f"{verb} {_elements_of(part, outside, width)}, {owner} holds {holds} elements; "
            f"first in program {self.program}"
        )

    def _elements(self, buffer: Buffer, at: AnyArray, width: int) -> AnyArray:
        """Return the numbers of the elements, as the buffer counts them, that an access touches."""
        if width < buffer.size:
            buffer.refine(width)
        index = at // buffer.size
        if width == buffer.size:
            return index
        return (index[:, None] + np.arange(width // buffer.size)).reshape(-1)

    def _count_sectors(self, at: AnyArray, width: int, verb: str) -> None:
        traffic = self.ledger.traffic.setdefault((self._place(), verb), Traffic())
        if not traffic.wants_a_look():
            return
        if (at[1:] < at[:-1]).any():
            at = np.sort(at)
        sectors = at // SECTOR
        traffic.sectors += 1 + int((sectors[1:] != sectors[:-1]).sum())
        elements = 1 + int((at[1:] != at[:-1]).sum())
        traffic.least += -(-elements * width // SECTOR)

    def _read(self, buffer: Buffer, elements: AnyArray, volatile: bool) -> None:
        if volatile and len(elements) == 1:
            address = buffer.base + int(elements[0]) * buffer.size
            if self.clocks.heard_of(address):
                self.clocks.acquire(address)
                return
        if buffer.written is not None and not (there := buffer.written[elements]).all():
            first = int(elements[~there][0])
            self.ledger.note(
                "uninitialised",
                self._place(),
                f"reads element {first} of {buffer.name}, to which nothing was written yet, in program {self.program}",
                int((~there).sum()),
            )
        if buffer.watched:
            for what in ("wrote", "changed"):
                races = buffer.shadow.unordered(what, elements, self.clocks)
                if races is not None:
                    self._note_race(buffer, what, elements[races], "reads")
            buffer.shadow.record("read", elements, self.clocks)

    def _write(self, buffer: Buffer, elements: AnyArray, differs: Mask) -> None:
        times = len(elements) // max(1, len(differs))
        differs = np.repeat(differs, times) if times > 1 else differs
        for what in ("wrote", "read", "changed"):
            races = buffer.shadow.unordered(what, elements, self.clocks)
            # To write what is there already harms nobody.
            if races is not None and (races := races & differs).any():
                self._note_race(buffer, what, elements[races], "writes")
        buffer.shadow.record("wrote", elements, self.clocks)

    def _merge(self, buffer: Buffer, elements: AnyArray) -> None:
        if buffer.merged is None:
            buffer.merged = np.zeros(len(buffer.content) // buffer.size, np.bool_)
        buffer.merged[elements] = True
        if buffer.written is not None:
            fresh = ~buffer.written[elements]
            if fresh.any():
                self.ledger.note(
                    "uninitialised",
                    self._place(),
                    f"changes element {int(elements[fresh][0])} of {buffer.name} atomically, to which nothing was "
                    "written yet; have an earlier launch set it",
                    int(fresh.sum()),
                )
            buffer.written[elements] = True
        if buffer.watched:
            races = buffer.shadow.unordered("wrote", elements, self.clocks)
            if races is not None:
                self._note_race(buffer, "wrote", elements[races], "atomically changes")
            buffer.shadow.record("changed", elements, self.clocks)

    def _note_race(self, buffer: Buffer, what: str, elements: AnyArray, verb: str) -> None:
        number = buffer.shadow.first(what, int(elements[0]))
        other = f"program number {several(number)}" if number != MANY else "another program"
        did = {"wrote": "wrote without atomics", "read": "reads", "changed": "changes atomically"}[what]
        self.ledger.note(
            "race",
            self._place(),
            f"program number {several(self.clocks.me)} {verb} element {int(elements[0])} of {buffer.name}, which "
            f"{other} {did} in the same launch: on a GPU the order is open",
            len(elements),
        )


def _elements_of(part: WindowLanes, at: AnyArray, width: int) -> str:
    """Name what lies at byte offsets, in elements from where the argument points to."""
    start = part.window.view.first if part.window.view is not None else 0
    least, most = (int(at.min()) - start) // width, (int(at.max()) - start) // width
    what = f"element {least}" if least == most else f"elements {least} to {most}"
    return f"{what} of {part.window.name}"


def _view(buffer: Buffer, kind: np.dtype[Any]) -> AnyArray:
    """Return the buffer as whole elements of a kind; a rest of bytes is left out."""
    whole = len(buffer.content) // kind.itemsize * kind.itemsize
    return buffer.content[:whole].view(kind)


def _take(values: AnyArray, lanes: Mask | slice) -> AnyArray:
    return values.reshape(-1) if isinstance(lanes, slice) else values[lanes]


def put(result: AnyArray, lanes: Mask | slice, values: AnyArray) -> None:
    """Set the lanes of an access that were selected."""
    if isinstance(lanes, slice):
        result.reshape(-1)[:] = values
    else:
        result[lanes] = values


def _differ(one: AnyArray, other: AnyArray) -> Mask:
    """Compare bit by bit, so that NaN equals itself."""
    bits = np.dtype(f"u{one.dtype.itemsize}")
    return np.ascontiguousarray(one).view(bits) != np.ascontiguousarray(other).view(bits)


def _one_by_one(view: AnyArray, index: AnyArray, values: AnyArray, apply: Change) -> AnyArray:
    if len(np.unique(index)) == len(index):
        before = view[index]
        view[index] = apply(before, values)
        return before
    before = np.empty(len(index), view.dtype)
    for lane, element in enumerate(index):
        before[lane] = view[element]
        view[element] = apply(view[element : element + 1], values[lane : lane + 1])[0]
    return before
