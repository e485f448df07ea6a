"""How a measurement goes on after each look at its samples: the controller's side of `worker/timing.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from forewarp.core.values import Target, WorkloadTiming
from forewarp.gpu_runner import statistics
from forewarp.gpu_runner.executors.verdicts import session_sd
from forewarp.gpu_runner.statistics import Samples
from forewarp.gpu_runner.worker.channel import Answer

STOPPING_ERROR: Final = 0.01
"""Chance over a whole measurement that a candidate is stopped that does reach what it has to beat."""


class Looks:
    """Answers the judge's questions during one measurement.

    A workload is done once it is settled. Where there is something to `beat` (a speed-up), each look also asks whether
    the geometric mean over the workloads can still reach it. That is a one-sided test each time, with the spread from
    session to session allowed for; the k-th test gets a share of 1 / (k (k + 1)) of `STOPPING_ERROR`, and all the
    shares there can be sum to one (Bonferroni's inequality; nothing is assumed of how the tests depend on each other).
    Only looks at which every workload has samples can end the measurement, and only they count as tests. Before that,
    workloads not seen are taken to be like those seen, which decides nothing but the order: a workload that is left is
    timed again should the candidate turn out to be able to win.
    """

    def __init__(self, target: Target, beat: float | None = None, weights: Mapping[str, float] | None = None) -> None:
        """`weights` are those of the workloads in the mean, by name; 1 where left out."""
        self._target, self._beat, self._weights = target, beat, weights or {}
        self._seen: dict[int, WorkloadTiming] = {}
        self._tests = 0

    def __call__(self, look: Mapping[str, Any]) -> Answer:
        """Say how to go on with the workload that was looked at."""
        if self._beat is not None and self._upper_end(look) < self._beat:
            return "beaten" if self._all_seen(look) else "leave"
        if look["sighting"]:
            return "on"
        hertz = look["candidate_hz"], look["anchor_hz"]
        spread = session_sd(self._target, look)
        why = statistics.settled(
            look["candidate_s"], look["anchor_s"], look["planned_looks"], *hertz, session_sd=spread, late=look["late"]
        )
        return "enough" if why else "on"

    def _all_seen(self, look: Mapping[str, Any]) -> bool:
        return len(self._seen) == look["of"]

    def _upper_end(self, look: Mapping[str, Any]) -> float:
        """Return the upper end of the mean speed-up over the workloads seen, at the level that this test gets."""
        self._seen[look["index"]] = statistics.timing(
            Samples(
                workload=look["workload"],
                candidate_s=tuple(look["candidate_s"]),
                anchor_s=tuple(look["anchor_s"]),
                error_ratio=0.0,
                mode=look["mode"],
                candidate_hz=tuple(look["candidate_hz"]),
                anchor_hz=tuple(look["anchor_hz"]),
                session_sd=session_sd(self._target, look),
                weight=self._weights.get(look["workload"], 1.0),
            )
        )
        self._tests += self._all_seen(look)
        k = max(self._tests, 1)
        one_sided = STOPPING_ERROR / (k * (k + 1))
        return statistics.geometric_mean(list(self._seen.values()), 1 - 2 * one_sided)[2]
