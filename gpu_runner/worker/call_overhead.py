"""Overhead of a call in a cell: making it ready, where code could work early, and copying its result out."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import torch

from forewarp.gpu_runner.worker.stage import Stage

LEAST_S = 5e-5
"""Seconds below which nothing is made of a difference."""
LEAST_FETCHES, FETCHES = 3, 15
"""Results of the anchor that have to be fetched before that says what copying takes, and how many of the last count."""
MOST_COPYING = 3.0
"""How many times the judge's own copy a copy in a cell may take."""


class Readying(NamedTuple):
    """Seconds of making a cell ready for a call: by the clock, to which busy neighbours add, and of processors."""

    wall_s: float
    processor_s: float


def works_early(candidate: Sequence[Readying], anchor: Sequence[Readying]) -> str:
    """Return what to flag where making a candidate ready for its calls cost much more than the anchor's; "" elsewhere.

    Of processor time, which busy neighbours hardly change, any quartile counts. The judge's clock tells of work in
    other processes, too, but must say so at all three. Half of the anchor's calls may be controls, which are ready
    sooner: an eighth of its calls stands for a quarter.
    """
    if not candidate or not anchor:
        return ""
    by_clock, by_processor = (
        [(_quantile(own, share), _quantile(others, (1 + share) / 2)) for share in (0.25, 0.5, 0.75)]
        for own, others in zip(zip(*candidate, strict=True), zip(*anchor, strict=True), strict=True)
    )
    late = [pair for pair in by_processor if _much_longer(*pair)]
    if not late and all(_much_longer(*pair) for pair in by_clock):
        late = by_clock
    if not late:
        return ""
    taken, usual = late[-1]
    return f"works before its calls: it was ready after {taken * 1e6:.1f} µs, the anchor after {usual * 1e6:.1f} µs"


def _much_longer(taken: float, usual: float) -> bool:
    return taken >= usual + max(usual, 2 * LEAST_S)


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[int(share * len(ordered))]


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
