"""Overhead of a call in a cell: making it ready, where code could work early, and copying its result out."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from math import comb
from statistics import median
from typing import NamedTuple

import torch

from forewarp.gpu_runner.worker.stage import Stage

LEAST_S = 5e-5
"""Seconds below which nothing is made of a difference."""
CHANCE = 1e-3
"""Probability by chance below which a candidate's late calls count."""
PUNCTUAL = 20
"""Calls in time that are added to the anchor's: late ones are known to be few, and some anchors have few calls."""
LEAST_FETCHES, FETCHES = 3, 15
"""Results of the anchor that have to be fetched before that says what copying takes, and how many of the last count."""
MOST_COPYING = 3.0
"""How many times the judge's own copy a copy in a cell may take."""


class Readying(NamedTuple):
    """Seconds of making a cell ready for a call: by the clock, to which busy neighbours add, and of processors.

    `follows_other` says that the other arm ran before: then a cell's code has to come back into the caches.
    """

    wall_s: float
    processor_s: float
    follows_other: bool = True


def works_early(candidate: Sequence[Readying], anchor: Sequence[Readying]) -> str:
    """Return what to flag where making a candidate ready for its calls cost much more than the anchor's; "" elsewhere.

    Late is a call that took twice what the anchor's take in the same place. Of processor time, which busy neighbours
    hardly change, a quarter of the calls must be late. The judge's clock tells of work in other processes, too, but
    must say so of three quarters. And the anchor's must be late so much less often that chance does not explain it.
    """
    if not candidate or not anchor:
        return ""
    for field, share in (("processor_s", 0.25), ("wall_s", 0.75)):
        usual = {place: _usual(anchor, field, follows_other=place) for place in (False, True)}
        late, others_late = ([r for r in arm if _is_late(r, field, usual)] for arm in (candidate, anchor))
        if len(late) < share * len(candidate):
            continue
        if _chance(len(late), len(candidate), len(others_late), len(anchor) + PUNCTUAL) < CHANCE:
            taken = median(getattr(r, field) for r in late)
            others = median(usual[r.follows_other] for r in late)
            return (
                f"works before its calls: before {len(late)} of {len(candidate)} it was ready after"
                f" {taken * 1e6:.1f} µs, the anchor after {others * 1e6:.1f} µs"
            )
    return ""


def _usual(anchor: Sequence[Readying], field: str, *, follows_other: bool) -> float:
    alike = [r for r in anchor if r.follows_other == follows_other]
    return median(getattr(r, field) for r in alike or anchor)


def _is_late(reading: Readying, field: str, usual: Mapping[bool, float]) -> bool:
    expected = usual[reading.follows_other]
    return getattr(reading, field) >= expected + max(expected, 2 * LEAST_S)


def _chance(late: int, count: int, others_late: int, others: int) -> float:
    """Return the probability that so many of all late calls, or more, are the candidate's by chance (Fisher's test)."""
    both, most = late + others_late, min(count, late + others_late)
    ways = sum(comb(count, k) * comb(others, both - k) for k in range(late, most + 1))
    return ways / comb(count + others, both)


class Copy:
    """Seconds of copying a result out of a module's cell, as the anchor's take, bounded by the judge's own copy."""

    def __init__(self, judges_s: float) -> None:
        self.judges_s = judges_s
        self._seen: deque[float] = deque(maxlen=FETCHES)

    def saw(self, seconds: float) -> None:
        self._seen.append(seconds)

    @property
    def seconds(self) -> float:
        seen = median(self._seen) if len(self._seen) >= LEAST_FETCHES else self.judges_s
        return min(max(seen, self.judges_s), MOST_COPYING * self.judges_s)


def copy_seconds(stage: Stage) -> float:
    results = (stage.anchor.outputs if stage.anchor else ()) or [o.clone() for o in stage.outputs]
    times: list[float] = []
    for _ in range(3):
        _synchronize(stage)
        start = time.perf_counter()
        for output, result in zip(stage.outputs, results, strict=True):
            output.copy_(result)
        _synchronize(stage)
        times.append(time.perf_counter() - start)
    return median(times)


def _synchronize(stage: Stage) -> None:
    if stage.device == "cuda":
        torch.cuda.synchronize()
