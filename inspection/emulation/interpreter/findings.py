"""What was seen of a kernel's use of memory, gathered by place in the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forewarp.core.checking import Finding, FindingKind

SECTOR = 32
"""Bytes that a GPU's memory gives out at least."""
MOST_SECTORS = 2.0
"""Times the least number of sectors above which an access is worth a word."""
WORTH = 0.05
"""Share of a run's sectors that a place must waste to be worth a word."""
CALM, THEN_EVERY = 32, 16
"""Requests of one place whose sectors are all counted, and which of the later ones are."""


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


@dataclass(slots=True)
class _Seen:
    message: str
    count: int = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Where something happened: the kernel that was launched and the line of the source."""

    kernel: str
    line: int

    def __str__(self) -> str:
        return f"{self.kernel}, line {self.line}" if self.line else self.kernel


@dataclass(slots=True)
class Reach:
    """Counts of programs and loop iterations in a run: the largest of each kind, by its name in words."""

    counts: dict[str, int] = field(default_factory=dict[str, int])

    def launched(self, kernel: str, grid: Sequence[int]) -> None:
        """Count the programs of a launch."""
        for axis, programs in enumerate(grid):
            self._count(f"programs of {kernel} along axis {axis}", programs)

    def looped(self, place: Place, passes: int) -> None:
        """Count the passes of a loop."""
        self._count(f"passes of the loop at {place}", passes)

    def _count(self, name: str, number: int) -> None:
        self.counts[name] = max(number, self.counts.get(name, 0))


@dataclass(slots=True)
class Ledger:
    """All that was seen; `findings` puts it into words."""

    seen: dict[tuple[FindingKind, Place], _Seen] = field(default_factory=dict[tuple[FindingKind, Place], _Seen])
    suspected: dict[tuple[FindingKind, Place], _Seen] = field(default_factory=dict[tuple[FindingKind, Place], _Seen])
    traffic: dict[tuple[Place, str], Traffic] = field(default_factory=dict[tuple[Place, str], Traffic])

    def note(self, kind: FindingKind, place: Place, message: str, count: int) -> None:
        """Count something at a place; the first message stays."""
        self.seen.setdefault((kind, place), _Seen(message)).count += count

    def suspect(self, kind: FindingKind, place: Place, message: str, count: int) -> None:
        """Count something that a right kernel may do, too: it is a fault only of one whose outputs are wrong."""
        self.suspected.setdefault((kind, place), _Seen(message)).count += count

    def traffic_at(self, place: Place, verb: str) -> Traffic:
        """Return what a place that loads or stores has asked for."""
        return self.traffic.setdefault((place, verb), Traffic())

    def findings(self) -> tuple[Finding, ...]:
        """Return what is worth a word, faults first."""
        return (*_in_words(self.seen), *self._uncoalesced())

    def suspicions(self) -> tuple[Finding, ...]:
        """Return what was suspected at places that have no certain finding of the kind."""
        return _in_words({key: seen for key, seen in self.suspected.items() if key not in self.seen})

    def _uncoalesced(self) -> Sequence[Finding]:
        total = sum(_all_of(traffic, traffic.sectors) for traffic in self.traffic.values())
        found: list[Finding] = []
        for (place, verb), traffic in self.traffic.items():
            factor = traffic.sectors / max(1, traffic.least)
            wasted = _all_of(traffic, traffic.sectors - traffic.least)
            if factor > MOST_SECTORS and wasted > WORTH * total:
                message = (
                    f"{verb} {factor:.1f} times the sectors of {SECTOR} bytes that its elements would fit in; "
                    f"{_all_of(traffic, traffic.sectors) / max(1, total):.0%} of all traffic comes from here"
                )
                found.append(Finding("uncoalesced", str(place), message, traffic.requests))
        return found


def _in_words(seen: Mapping[tuple[FindingKind, Place], _Seen]) -> tuple[Finding, ...]:
    return tuple(Finding(kind, str(place), one.message, one.count) for (kind, place), one in seen.items())


def _all_of(traffic: Traffic, part: int) -> int:
    """Return what the requests looked at add up to, taken over all requests."""
    looked_at = min(traffic.requests, CALM) + max(0, traffic.requests // THEN_EVERY - CALM // THEN_EVERY)
    return round(part * traffic.requests / max(1, looked_at))
