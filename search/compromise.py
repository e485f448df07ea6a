"""Best compromise for several targets: the kernel to prefer of those that were measured on all of them.

A ratio never mixes devices: each speed-up is over the reference on the same card. Only these ratios are averaged, as a
geometric mean, since that orders kernels alike whatever reference they are taken over (Fleming and Wallace, 1986).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from forewarp.archive.store import Archive
from forewarp.core.values import Candidate, Measurement
from forewarp.search.gate import twin_of
from forewarp.search.summary import best_of


@dataclass(frozen=True, slots=True)
class Mean:
    """The geometric mean of a kernel's speed-ups over all targets with its 95 % interval, and the smallest of them."""

    speedup: float
    low: float
    high: float
    worst: float


@dataclass(frozen=True, slots=True)
class Everywhere:
    """A kernel over all targets of a search.

    `measured` holds what there is, by target, and `outcomes` in a word what became of it there; `won` names the targets
    on which it is the fastest. `mean` is None where a target has no number to be believed.
    """

    candidate: Candidate
    measured: Mapping[str, Measurement]
    outcomes: Mapping[str, str]
    won: tuple[str, ...]
    mean: Mean | None


def compare(archive: Archive, runs: Mapping[str, str]) -> list[Everywhere]:
    """Return the kernels that won on a target or were measured on all, the best compromise first.

    `runs` are those of one search, by target. A confirmation counts instead of the number that it confirms, which is
    too high on average; so a kernel that failed one is no compromise.
    """
    islands = {target: _Island(archive, run) for target, run in runs.items()}
    kernels = {sha256: c for island in islands.values() for sha256, c in island.candidates.items()}
    compared = [_over_all(c, islands) for c in kernels.values()]
    return sorted((e for e in compared if e.won or e.mean), key=_order)


class _Island:
    """Results of one run, by the kernels' identities."""

    def __init__(self, archive: Archive, run: str) -> None:
        best, _ = best_of(archive, run)
        rows = archive.candidates(run)
        self.winner = best.candidate.sha256 if best else ""
        self.candidates = {r.candidate.sha256: r.candidate for r in rows}
        self._outcomes = {r.candidate.sha256: r.decision.action if r.decision else r.outcome for r in rows}
        # The confirmation is the later one of its kernel.
        self.measured = {r.candidate.sha256: r.measurement for r in archive.measurements(run=run) if r.measurement}
        # A kernel that compiles to the code of another one is not measured again: it takes that one's measurement.
        known = {r.candidate.short: r.candidate.sha256 for r in rows}
        for row in rows:
            twin = known.get(twin_of(row), "")
            if twin in self.measured:
                self.measured[row.candidate.sha256] = self.measured[twin]

    def outcome(self, sha256: str) -> str:
        m = self.measured.get(sha256)
        return self._outcomes.get(sha256, "not proposed") if m is None else m.verdict if m.status == "ok" else m.status


def _over_all(candidate: Candidate, islands: Mapping[str, _Island]) -> Everywhere:
    own = candidate.sha256
    measured = {target: i.measured[own] for target, i in islands.items() if own in i.measured}
    return Everywhere(
        candidate,
        measured,
        {target: i.outcome(own) for target, i in islands.items()},
        tuple(target for target, i in islands.items() if i.winner == own),
        _mean(list(measured.values())) if len(measured) == len(islands) else None,
    )


def _mean(measured: list[Measurement]) -> Mean | None:
    logs = [
        (math.log(m.speedup), math.log(m.low), math.log(m.high))
        for m in measured
        if m.trusted and m.speedup and m.low and m.high
    ]
    if len(logs) < len(measured):
        return None
    count = len(logs)
    middle = sum(s for s, _, _ in logs) / count
    # Cards err independently of each other.
    below = math.sqrt(sum((s - low) ** 2 for s, low, _ in logs)) / count
    above = math.sqrt(sum((high - s) ** 2 for s, _, high in logs)) / count
    return Mean(
        *(math.exp(v) for v in (middle, middle - below, middle + above)), worst=math.exp(min(s for s, _, _ in logs))
    )


def _order(found: Everywhere) -> tuple[bool, bool, float, str]:
    """Return the sort key of a kernel: those with a mean first, then unambiguous ones, then the highest mean.

    A kernel with an ambiguous verdict leads only until there is another, as within one run.
    """
    unsure = any(m.verdict == "ambiguous" for m in found.measured.values())
    return found.mean is None, unsure, -(found.mean.speedup if found.mean else 0.0), found.candidate.sha256
