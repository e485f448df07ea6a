"""Several targets in one search: one run per target, an island, between which good kernels migrate.

The runs keep step: none begins round n before every other one has finished round n − 1 or has ended, so that what an
island takes in depends on the seed and not on which device is faster. In the end each island measures what won on the
others. Source: the island model of evolutionary search (Whitley, Rana and Heckendorn, 1999); here the policy decides by
a forecast for its own target whether a migrant is worth a measurement, and the forecaster learns from all targets.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Set

from forewarp.archive.rows import CandidateRow
from forewarp.archive.store import Archive
from forewarp.core.protocols import Proposal, Subject, TargetTrials, Trial
from forewarp.core.values import Candidate
from forewarp.search.policy import is_visit
from forewarp.search.state import standing

MIGRANTS = 2
"""Most kernels that an island takes in from each other one in a round."""
NAME = "migration"

_LOOK_S = 0.2
"""Time between two checks whether a waiting run was asked to stop."""

Able = Callable[[Candidate], bool]


class Stopped(Exception):
    """`Search.stop()` was called."""


class Islands:
    """The islands of one search by the names of their targets, shared by the threads that work on them."""

    def __init__(self, archive: Archive) -> None:
        self.archive = archive
        self._runs: dict[str, str] = {}
        self._begun: dict[str, float] = {}
        """The round that each island has begun, infinity once it has finished searching."""
        self._moved = threading.Condition()

    def open(self, target: str, able: Able = lambda _: True) -> Island:
        """Return the island of a target; `able` says which kernels it can take in at all."""
        self._begun[target] = -1
        return Island(self, target, able)

    def enter(self, target: str, run: str) -> None:
        """Set the run that works on an island."""
        self._runs[target] = run

    def ended(self, target: str, run: str) -> None:
        """Add an island whose run is over; it only offers what it found."""
        self._runs[target], self._begun[target] = run, math.inf

    def begin(self, target: str, number: float) -> None:
        """Note that an island has begun a round; infinity stands for the end of its search."""
        with self._moved:
            self._begun[target] = number
            self._moved.notify_all()

    def wait(self, number: float, stop: threading.Event) -> None:
        """Wait until no island is behind a round; raises `Stopped`."""
        with self._moved:
            while min(self._begun.values()) < number:
                if stop.is_set():
                    raise Stopped
                self._moved.wait(_LOOK_S)

    def others(self, target: str) -> Mapping[str, str]:
        """Return the runs of the other islands by target."""
        return {name: run for name, run in sorted(self._runs.items()) if name != target}


class Island:
    """One run's view of the others."""

    def __init__(self, islands: Islands, target: str, able: Able) -> None:
        self._islands, self._target, self._able = islands, target, able
        self._stop = threading.Event()

    def enter(self, run: str, stop: threading.Event) -> None:
        """Attach to a run; `stop` is set when it is asked to end."""
        self._stop = stop
        self._islands.enter(self._target, run)

    def leave(self) -> None:
        """Stop keeping other islands waiting for this one."""
        self._islands.begin(self._target, math.inf)

    def migrants(self, number: int, seen: Set[str], most: int) -> list[Proposal]:
        """Return at most `most` kernels that others measured before round `number` and that are not `seen` here.

        Waits for the others to have finished that round; raises `Stopped`.
        """
        self._islands.begin(self._target, number)
        self._islands.wait(number, self._stop)
        made: list[Proposal] = []
        taken = set(seen)
        for target, run in self._islands.others(self._target).items():
            new = [r for r in self._led(run, number) if r.candidate.sha256 not in taken and self._able(r.candidate)]
            taken |= {r.candidate.sha256 for r in new[:MIGRANTS]}
            made += [_proposal(r, target) for r in new[:MIGRANTS]]
        return made[:most]

    def elsewhere(self, number: int) -> dict[str, TargetTrials]:
        """Return the trials of the other islands before round `number`, by target; they have finished that round."""
        elsewhere: dict[str, TargetTrials] = {}
        for target, run in self._islands.others(self._target).items():
            trials = [
                Trial(Subject(r.candidate, r.build), r.measurement)
                for r in self._measured(run, number)
                if r.build is not None and r.measurement is not None
            ]
            if trials:
                elsewhere[target] = TargetTrials(self._islands.archive.run(run).target, trials)
        return elsewhere

    def visitors(self) -> list[Proposal]:
        """Return the winner of each other island once all of them have searched; raises `Stopped`.

        What others measure after that, as visits or confirmations, changes nothing here.
        """
        self.leave()
        self._islands.wait(math.inf, self._stop)
        led = {target: self._led(run) for target, run in self._islands.others(self._target).items()}
        return [_proposal(rows[0], target) for target, rows in led.items() if rows and self._able(rows[0].candidate)]

    def _led(self, run: str, number: float = math.inf) -> list[CandidateRow]:
        """Return those of a run's own measurements before a round that can win, the best first."""
        ranked = [(standing(r.measurement, r.measurement_id or 0), r) for r in self._measured(run, number)]
        able = [(place, r) for place, r in ranked if place is not None]
        return [r for _, r in sorted(able, key=lambda pair: pair[0], reverse=True)]

    def _measured(self, run: str, number: float) -> list[CandidateRow]:
        """Return the candidates that a run itself decided to measure before a round, whatever it has done since."""
        return [
            r
            for r in self._islands.archive.candidates(run)
            if r.measurement is not None
            and r.decided_round is not None
            and r.decided_round < number
            and not (r.decision and is_visit(r.decision))
        ]


def _proposal(row: CandidateRow, target: str) -> Proposal:
    speedup = row.measurement.speedup if row.measurement else None
    note = f"S = {speedup:.3g} on {target}" if speedup is not None else f"from {target}"
    return Proposal(row.candidate, NAME, note=note, operator=NAME)
