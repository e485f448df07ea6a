"""A second look at a candidate's times from outside its process: whether all work is done when it says so.

Code in a cell may answer first and work later: in a thread, when its result is fetched, or once the judge looks away.
Or it works early, while it is made ready for a call whose inputs lie there already. Each question is asked again before
it counts, because a busy machine can make an honest candidate look odd once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple, Protocol

import torch

from forewarp.gpu_runner.worker import cell_process
from forewarp.gpu_runner.worker.cells import Cell
from forewarp.gpu_runner.worker.stage import Stage
from forewarp.gpu_runner.worker.timing import Arm

DISPUTED_RATIO = 1.3
_CALLS, _TIME_S = 8, 0.2
_GAP_S = 0.02
_ASKED, _REPEATS = 5, 3
"""Times that a question is asked, and looks at each arm that it takes.

The candidate's median is compared with the anchor's worst: on a busy machine, equal ones seldom exceed that.
"""
_LEAST_S = 5e-5
"""Seconds below which nothing is made of a difference."""
LEAST_FETCHES, FETCHES = 3, 15
"""Results of the anchor that have to be fetched before that says what copying takes, and how many of the last count."""
MOST_COPYING = 3.0
"""How many times the judge's own copy a copy in a cell may take."""


class Readying(NamedTuple):
    """Cost of making a cell ready for a call, outside of its time: seconds by the judge's clock, and of processors.

    Busy neighbours add to the first, now and then a lot; what work in other processes takes is only in it.
    """

    wall_s: float
    processor_s: float


class Watched(Protocol):
    """What a bench must offer to be looked at."""

    timeout: float
    round_trip_s: float
    spins: bool

    @property
    def ready(self) -> Mapping[Arm, Sequence[Readying]]:
        """Costs of making each arm ready for its calls."""
        ...

    def awake(self, arm: Arm) -> Cell:
        """Return an arm's cell, running while the other is stopped."""
        ...

    def warm(self, stage: Stage, arm: Arm, slot: int) -> float:
        """Return the seconds of one warm call, less the round trip."""
        ...

    def burst(self, stage: Stage, arm: Arm, calls: int) -> float:
        """Return the seconds of each of some calls back to back, outputs fetched, less round trips."""
        ...


class Witness:
    """Looks at the candidate on one workload.

    `copy_s` is what it takes to copy its result out: with modules that is part of every call. 0 for native code.
    """

    def __init__(self, bench: Watched, stage: Stage, *, copy_s: float) -> None:
        self.bench, self.stage, self.copy_s = bench, stage, copy_s
        self.single_s = 0.0
        self.calls = _CALLS

    def findings(self) -> list[str]:
        """Return what speaks against the candidate's times; raises `CellFailed` and `Mismatch`."""
        early = works_early(self.bench.ready["candidate"], self.bench.ready["anchor"])
        self.bench.awake("candidate").settle()
        pilot = max(self.bench.warm(self.stage, "candidate", 0), 1e-7)
        self.calls = int(min(_CALLS, max(2, _TIME_S / (2 * pilot))))
        self.single_s = self._single("candidate")
        questions: list[Callable[[], str]] = [self._disputed, self._restless]
        if not self.copy_s:
            questions.append(self._late)
        return [answer for answer in (early, *map(self._insist, questions)) if answer]

    def _insist(self, ask: Callable[[], str]) -> str:
        answer = ""
        for _ in range(_ASKED):
            answer = ask()
            if not answer:
                return ""
        return answer

    def _single(self, arm: Arm) -> float:
        slots = self.stage.slot_count
        return max(median(self.bench.warm(self.stage, arm, i % slots) for i in range(self.calls)), 1e-7)

    def _disputed(self) -> str:
        seen = [self._stretch("candidate") for _ in range(_REPEATS)]
        single, each = (median(values) for values in zip(*seen, strict=True))
        single = max(self.single_s, single)
        allowed = DISPUTED_RATIO * single + _LEAST_S
        if each < allowed:
            return ""
        # What a stretch of calls costs beyond single ones on a machine as busy as this, the anchor shows.
        beyond = max(burst - alone for alone, burst in (self._stretch("anchor") for _ in range(_REPEATS)))
        if each < allowed + DISPUTED_RATIO * max(0.0, beyond):
            return ""
        return (
            f"timing disputed: calls at a stretch took {each * 1e6:.1f} µs each until their outputs were there,"
            f" a single one {single * 1e6:.1f} µs"
        )

    def _stretch(self, arm: Arm) -> tuple[float, float]:
        """Return the seconds of an arm's single call, and of each of a stretch of calls."""
        single = self._single(arm)
        return single, self.bench.burst(self.stage, arm, self.calls) - self.copy_s

    def _late(self) -> str:
        allowed = max(_LEAST_S, 0.5 * self.single_s)
        extra = median(self._fetch("candidate") for _ in range(_REPEATS))
        if extra < allowed or extra < allowed + max(self._fetch("anchor") for _ in range(_REPEATS)):
            return ""
        return f"work is left for after the call: fetching its result took {extra * 1e6:.1f} µs"

    def _fetch(self, arm: Arm) -> float:
        self.bench.warm(self.stage, arm, 0)
        return self.bench.awake(arm).deliver(self.bench.timeout) - self.bench.round_trip_s

    def _restless(self) -> str:
        cell = self.bench.awake("candidate")
        used: list[float] = []
        for command in (cell_process.NULL, cell_process.RUN):
            cell.call(command, self.bench.timeout)
            if self.bench.spins:
                cell.call(cell_process.REST, self.bench.timeout)  # or its own waiting would count
            before = cell.processor_s()
            time.sleep(_GAP_S)
            used.append(cell.processor_s() - before)
        extra = used[1] - used[0]
        if used[0] > _GAP_S / 2:
            return f"works between its calls: {used[0] * 1e3:.1f} ms of processor time within {_GAP_S * 1e3:.0f} ms"
        if extra < max(_LEAST_S, 0.5 * self.single_s, _GAP_S / 10):
            return ""
        return f"works on after its call has ended: {extra * 1e6:.1f} µs of processor time within {_GAP_S * 1e3:.0f} ms"


def works_early(candidate: Sequence[Readying], anchor: Sequence[Readying]) -> str:
    """Return a complaint where making a candidate ready for its calls cost much more than the anchor; "" elsewhere.

    The quartiles are looked at, because work that fewer calls are spared buys nothing. Of processor time, which busy
    neighbours hardly change, any of them counts. The judge's clock tells of work in other processes, too, but must say
    so at all three. Half of the anchor's calls may be controls, which no draw of inputs comes before and which are
    ready sooner: of all its calls, an eighth stands for a quarter.
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
    return taken >= usual + max(usual, 2 * _LEAST_S)


def _quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[int(share * len(ordered))]


class Copy:
    """What it takes to copy a result out of a module's cell, which is no part of the call.

    That is seen where the anchor's results are fetched: there it takes longer than in the judge, which has its buffers
    in the cache. An anchor can be a candidate, too, so that the judge's own copy bounds it.
    """

    def __init__(self, judges_s: float) -> None:
        """`judges_s` are the seconds of the judge's own copy."""
        self.judges_s = judges_s
        self._seen: deque[float] = deque(maxlen=FETCHES)

    def saw(self, seconds: float) -> None:
        """Take note of how long fetching one of the anchor's results took, without the round trip."""
        self._seen.append(seconds)

    @property
    def seconds(self) -> float:
        """The median of the last ones."""
        seen = median(self._seen) if len(self._seen) >= LEAST_FETCHES else self.judges_s
        return min(max(seen, self.judges_s), MOST_COPYING * self.judges_s)


def copy_seconds(stage: Stage) -> float:
    """Return the seconds that it takes to copy results of this workload's sizes."""
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
