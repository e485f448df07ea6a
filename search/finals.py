"""End of a run: other targets' winners are tried, its own is measured again, and on shapes nobody tuned for."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from dataclasses import replace

from forewarp.archive.rows import CandidateRow, RunRow
from forewarp.archive.store import Archive
from forewarp.core import serde
from forewarp.core.protocols import Executor, Proposal
from forewarp.core.values import Candidate, Decision
from forewarp.search import holdout
from forewarp.search.ends import BudgetSpent
from forewarp.search.events import Event, Examined
from forewarp.search.gate import twin_of
from forewarp.search.recorder import Recorder
from forewarp.search.rounds import Rounds
from forewarp.search.settings import SearchSettings
from forewarp.search.summary import best_of

VISIT = Decision("measure", "it won on another target", 0.0, {"visit": 1.0})


class Finals:
    """The work of one run after its rounds. What was done before a kill is not done again."""

    def __init__(
        self,
        archive: Archive,
        run: RunRow,
        executor: Executor,
        settings: SearchSettings,
        recorder: Recorder,
        rounds: Rounds,
        stop: threading.Event,
    ) -> None:
        self._archive, self._id, self._task = archive, run.id, run.task
        self._executor, self._settings, self._recorder = executor, settings, recorder
        self._rounds, self._stop = rounds, stop

    def receive(self, visitors: Sequence[Proposal]) -> Generator[Event]:
        """Measure other targets' winners that were not measured here, except those that the gate rejects.

        Raises `Stopped`; a spent budget leaves the rest unmeasured.
        """
        rounds, state = self._rounds, self._rounds.state
        rounds.keeps = 0
        unseen = [v for v in visitors if v.candidate.sha256 not in state.known.seen]
        if unseen or self._due(visitors, decided=False):
            yield from rounds.enter(state.round + 1, unseen)
        unchecked = [r.proposal for r in state.fresh if r.outcome == "pending"]
        if unchecked:
            yield from rounds.check(unchecked)
        try:
            yield from rounds.forecast([r.proposal for r in self._due(visitors) if r.forecast is None])
            yield from rounds.decided({r.proposal: VISIT for r in self._due(visitors, decided=False)})
            yield from rounds.measure(self._due(visitors))
        except BudgetSpent:
            return

    def _due(self, visitors: Sequence[Proposal], *, decided: bool = True) -> list[CandidateRow]:
        """Return visitors' rows that passed the gate and have no result; unless `decided`, only those not chosen yet.

        One that compiles to the code of another kernel here is represented by that.
        """
        rows = self._rounds.state.rows.values()
        wanted = {v.candidate.sha256 for v in visitors}
        twins = {twin_of(r) for r in rows if r.candidate.sha256 in wanted}
        due = [
            r
            for r in rows
            if (r.candidate.sha256 in wanted or r.candidate.short in twins)
            and r.outcome == "passed"
            and r.measurement is None
        ]
        return due if decided else [r for r in due if r.decision is None or r.decision.action != "measure"]

    def confirm(self) -> Generator[Event]:
        """Measure the winner again, and try it on near shapes, if settings and budget allow it."""
        best = self._rounds.state.best
        if not self._rounds.confirms or best is None:
            return
        states = {m.state for m in self._archive.measurements(run=self._id) if m.purpose == "confirm"}
        if "done" not in states:
            if "started" not in states and self._settings.budget.exhausted(self._recorder.spend()):
                return
            yield from self._rounds.confirm(best)
        winner, _ = best_of(self._archive, self._id)
        # Another winner, or none, means that the confirmation failed: there is nothing to say of other shapes.
        if winner is None or not winner.confirmed or not self._settings.holdout:
            return
        if best.candidate.sha256 not in self._archive.holdouts(self._id):
            yield from self._examine(best.candidate)

    def _examine(self, candidate: Candidate) -> Generator[Event]:
        """Try the winner on shapes that it was not tuned for."""
        if self._stop.is_set() or self._settings.budget.exhausted(replace(self._recorder.spend(), measurements=0)):
            return
        found = holdout.examine(self._executor, self._task, candidate, self._stop.is_set)
        if found is None:
            return
        kernel = candidate.sha256
        with self._archive.transaction():
            self._archive.add_holdout(self._id, kernel, serde.to_data(found))
            self._recorder.spend_device(found.device_s, f"holdout of {candidate.short}")
            self._recorder.tick()
            said = self._recorder.say(Examined(self._id, self._rounds.current, kernel, found.generalises, found.said))
        yield said
