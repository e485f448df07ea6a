"""The rounds of a run: propose, gate, forecast, decide, measure.

`state.pending` says what is to be done next; here it is done, written in one transaction, and put into the state. So a
run that was killed anywhere goes on by loading its state again: fresh and resumed runs take the same path.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import partial

from forewarp.archive.rows import CandidateRow, Purpose, RunRow
from forewarp.archive.store import Archive
from forewarp.core.errors import ForewarpError, WorkerError
from forewarp.core.protocols import (
    Borrowing,
    Executor,
    Forecaster,
    Proposal,
    Proposer,
    Recalling,
    Subject,
    Trial,
    with_evidence,
)
from forewarp.core.values import Build, Decision, Measurement, Signature, Spend
from forewarp.gpu_runner.pipeline import compile_threads, twice
from forewarp.search import budget as budgets
from forewarp.search import policy, price
from forewarp.search.ends import BudgetSpent, Stopped
from forewarp.search.events import (
    Accepted,
    Alarmed,
    Decided,
    Event,
    Forecasted,
    Measured,
    Measuring,
    Proposed,
    Rejected,
)
from forewarp.search.gate import Gate, Gated
from forewarp.search.islands import Island
from forewarp.search.recorder import Recorder
from forewarp.search.settings import SearchSettings
from forewarp.search.state import Ask, Check, Decide, Finish, Measure, Propose, RunState, pending
from forewarp.search.tiers import counts, escalated, unanswered


@dataclass(frozen=True, slots=True)
class _Started:
    """A measurement that was announced under `number`, and whose result is to be written."""

    row: CandidateRow
    purpose: Purpose
    number: int
    build: Build
    beat: float | None


class Rounds:
    """The work of one run."""

    def __init__(
        self,
        archive: Archive,
        run: RunRow,
        executor: Executor,
        proposer: Proposer,
        forecaster: Forecaster | None,
        settings: SearchSettings,
        recorder: Recorder,
        stop: threading.Event,
        island: Island | None = None,
    ) -> None:
        self._island = island
        self._archive, self._id, self._task, self._target = archive, run.id, run.task, run.target
        self._executor, self._proposer, self._forecaster = executor, proposer, forecaster
        self._settings, self._recorder, self._stop = settings, recorder, stop
        # A recorded measurement would only be looked up again, which confirms nothing.
        self.confirms = settings.confirm and executor.candidates(run.task) is None
        self.keeps = settings.visitors
        """Measurements that are kept back for other targets' winners."""
        self._builds: dict[int, Build] = {}
        self._gate: Gate | None = None
        self._signatures: tuple[Signature, ...] = ()
        self._state = RunState(forecasting=forecaster is not None)

    @property
    def current(self) -> int:
        """The round that the run is in."""
        return max(0, self._state.round)

    @property
    def state(self) -> RunState:
        """State of the run."""
        return self._state

    def load(self) -> None:
        """Load the run from the archive, and give the forecaster its earlier forecasts back."""
        self._state = RunState.load(self._archive, self._id, forecasting=self._forecaster is not None)
        self._signatures = self._archive.signatures(self._task.sha256, self._target.name)
        if isinstance(self._forecaster, Recalling):
            said = {r.candidate.sha256: r.forecast for r in self._state.rows.values() if r.forecast is not None}
            self._forecaster.recall(self._task, self._target, said)

    def until_spent(self) -> Generator[Event, None, Finish | BudgetSpent]:
        """Carry out pending actions until there is no budget or nothing left to do; returns which. Raises `Stopped`."""
        try:
            while True:
                match pending(self._state, self._settings, self._floor()):
                    case Propose(number):
                        yield from self._propose(number)
                    case Check(proposals):
                        yield from self.check(proposals)
                    case Ask(proposals):
                        yield from self.forecast(proposals)
                    case Decide(proposals):
                        yield from self._decide(proposals)
                    case Measure():
                        yield from self.measure([r for r in self._state.chosen if r.measurement is None])
                    case Finish() as finish:
                        return finish
        except BudgetSpent as e:
            return e

    def _propose(self, number: int) -> Generator[Event]:
        self._pause()
        s = self._settings
        known = self._state.known
        if s.learn_across_runs:
            known = replace(known, trials=self._history())
        rng = random.Random(f"{s.seed}:{number}")
        migrants = self._island.migrants(number, known.seen, s.proposals_per_round // 2) if self._island else []
        if self._island is not None:
            self._pause()  # it may have waited long for the others
        held, room = {m.candidate.sha256 for m in migrants}, s.proposals_per_round - len(migrants)
        made = self._proposer.propose(self._task, self._target, known, room, rng)[:room]
        yield from self.enter(number, [*migrants, *(p for p in made if p.candidate.sha256 not in held)])

    def enter(self, number: int, made: Sequence[Proposal]) -> Generator[Event, None, list[int]]:
        """Begin a round with these proposals; returns their ids."""
        with self._archive.transaction():
            added = self._archive.add_proposals(self._id, number, made)
            said = [
                self._recorder.say(
                    Proposed(
                        *(self._id, number, place, p.candidate.sha256, p.candidate.language, p.candidate.tunables),
                        *(p.proposer, p.parent, p.note, p.mate, p.operator),
                    )
                )
                for place, p in enumerate(made)
            ]
            self._recorder.tick()
            said += self._recorder.warn()
        self._state.begin(number)
        for proposal, place, p in zip(added, range(len(made)), made, strict=True):
            self._state.put(CandidateRow.proposed(proposal, number, place, p))
        yield from said
        return added

    def check(self, proposals: Sequence[int]) -> Generator[Event]:
        """Send the round's proposals through the gate."""
        rows = [self._state.rows[p] for p in proposals]
        with contextlib.closing(self._ready_gate().check([r.candidate for r in rows])) as answers:
            for row, gated in zip(rows, answers, strict=True):
                yield self._gated(row, gated)
                if self._stop.is_set():
                    raise Stopped

    def _gated(self, row: CandidateRow, gated: Gated) -> Event:
        number, kernel = self.current, row.candidate.sha256
        with self._archive.transaction():
            kept = self._archive.set_outcome(row.proposal, gated.outcome, gated.reason, gated.build)
            self._recorder.tick()
            if gated.outcome != "passed" or gated.build is None:
                event: Event = Rejected(self._id, number, kernel, gated.outcome, gated.reason)
            else:
                event = Accepted(self._id, number, kernel, gated.build.seconds)
                self._builds[row.proposal] = gated.build
            self._recorder.say(event)
        self._state.put(replace(row, outcome=gated.outcome, reason=gated.reason, build=kept))
        return event

    def _ready_gate(self) -> Gate:
        if self._gate is None:
            self._signatures = self._executor.describe(self._task)
            self._archive.add_signatures(self._task, self._target, self._signatures)
            threads = compile_threads(self._executor, self._settings.compile_threads)
            self._gate = Gate(self._executor, self._task, self._signatures, threads)
            for row in self._state.rows.values():
                self._gate.remember(row.candidate, row.outcome, row.build)
        return self._gate

    def forecast(self, proposals: Sequence[int]) -> Generator[Event]:
        """Forecast proposals, if there is a forecaster; raises `Stopped` and `BudgetSpent`."""
        if self._forecaster is None:
            return
        self._pause()
        number, rows = self.current, [self._state.rows[p] for p in proposals]
        subjects = [Subject(r.candidate, r.build) for r in rows if r.build is not None]
        before = counts(self._forecaster)
        if self._island is not None and isinstance(self._forecaster, Borrowing):
            self._forecaster.lend(self._task, self._target, self._island.elsewhere(number))
        made = self._forecaster.forecast(self._task, self._target, subjects, self._history())
        if len(made) != len(rows):
            raise ForewarpError(
                f"forecaster {self._forecaster.name} gave {len(made)} forecasts for {len(rows)} subjects"
            )
        with self._archive.transaction():
            self._archive.add_forecasts(self._id, number, dict(zip(proposals, made, strict=True)))
            said = [
                self._recorder.say(Forecasted(self._id, number, r.candidate.sha256, f))
                for r, f in zip(rows, made, strict=True)
                if r.round == number
            ]
            said += [self._recorder.say(event) for event in escalated(self._id, number, made)]
            missing = unanswered(self._id, number, made, before, counts(self._forecaster))
            said += [self._recorder.say(event) for event in missing]
            self._recorder.tick()
            said += self._recorder.warn()
        for row, forecast in zip(rows, made, strict=True):
            self._state.put(replace(row, forecast=forecast, forecast_round=number))
        yield from said

    def _decide(self, proposals: Sequence[int]) -> Generator[Event]:
        number, rows = self.current, [self._state.rows[p] for p in proposals]
        spend = self._spend()
        budget = self._searching(spend)
        prices = price.relative([r.candidate for r in rows], self._state.trials, budget, spend)
        options = [
            policy.Option(r.proposal, r.candidate, r.forecast, not policy.is_known(r.decision), cost)
            for r, cost in zip(rows, prices, strict=True)
        ]
        situation = policy.Situation(
            self._state.incumbent,
            [t.subject.candidate for t in self._history()],
            budgets.measurements_left(budget, spend),
            fallback=self._state.watch.waiting,
        )
        rng = random.Random(f"{self._settings.seed}:{number}:decide")
        yield from self.decided(policy.decide(options, situation, self._settings, rng))

    def decided(self, made: Mapping[int, Decision]) -> Generator[Event]:
        """Record and apply decisions, by the proposals' ids."""
        number, rows = self.current, [self._state.rows[p] for p in sorted(made)]
        with self._archive.transaction():
            self._archive.add_decisions(self._id, number, made)
            said = [
                self._recorder.say(Decided(self._id, number, r.candidate.sha256, made[r.proposal]))
                for r in rows
                if r.round == number or made[r.proposal].action == "measure"
            ]
            self._recorder.tick()
        for row in rows:
            self._state.put(replace(row, decision=made[row.proposal], decided_round=number))
        yield from said

    def measure(self, rows: Sequence[CandidateRow]) -> Generator[Event]:
        """Measure candidates, as many at once as there are devices; each result is written as soon as it is there."""
        if self._executor.devices > 1:
            yield from self._measure_at_once(deque(rows))
            return
        for row in rows:
            started = yield from self._begin(row)
            yield from self._record(started, self._paid(started, partial(self._measured, started)))

    def _measure_at_once(self, waiting: deque[CandidateRow]) -> Generator[Event]:
        running: dict[Future[Measurement], _Started] = {}
        over: Exception | None = None
        pool = ThreadPoolExecutor(self._executor.devices, thread_name_prefix="measure")
        try:
            while running or (waiting and over is None):
                while waiting and over is None and len(running) < self._executor.devices:
                    try:
                        started = yield from self._begin(waiting.popleft())
                        running[pool.submit(self._measured, started)] = started
                    except (Stopped, BudgetSpent) as e:
                        over = e
                ended = wait(running, return_when=FIRST_COMPLETED).done
                for done in sorted(ended, key=lambda f: running[f].number):
                    started = running.pop(done)
                    try:
                        yield from self._record(started, self._paid(started, done.result))
                    except ForewarpError as e:
                        # Measurements in progress on the other devices are paid for: wait for their results.
                        over = over if isinstance(over, ForewarpError) else e
            if over is not None:
                raise over
        finally:
            # A caller that closed this iterator does not wait: it closes the executor next, which ends what still runs.
            pool.shutdown(wait=False, cancel_futures=True)

    def confirm(self, row: CandidateRow) -> Generator[Event]:
        """Measure a candidate once more."""
        started = yield from self._announce(row, "confirm")
        yield from self._record(started, self._paid(started, partial(self._measured, started)))

    def _begin(self, row: CandidateRow) -> Generator[Event, None, _Started]:
        """Announce a candidate's measurement; raises `Stopped` or `BudgetSpent` where it may not begin."""
        # One that was announced before a kill is booked already, whatever the budget says by now.
        if row.measurement_id is None:
            self._pause()
        return (yield from self._announce(row, "candidate"))

    def _announce(self, row: CandidateRow, purpose: Purpose) -> Generator[Event, None, _Started]:
        kernel = row.candidate.sha256
        # After a resume the artefact may be gone; the executor's cache makes this free where it is not.
        build = self._builds.get(row.proposal) or with_evidence(
            self._executor, self._task, row.candidate, self._executor.compile(self._task, row.candidate)
        )
        with self._archive.transaction():
            number = self._archive.begin_measurement(
                self._task, self._target, row.candidate, run=self._id, proposal=row.proposal, purpose=purpose
            )
            measuring = self._recorder.say(Measuring(self._id, self.current, kernel, number, purpose))
            self._recorder.tick()
        yield measuring
        beat = self._beat(row) if purpose == "candidate" and self._settings.early_stop else None
        return _Started(row, purpose, number, build, beat)

    def _record(self, started: _Started, m: Measurement) -> Generator[Event]:
        row, number, purpose = started.row, started.number, started.purpose
        alarms = self._state.watch.alarms
        with self._archive.transaction():
            self._archive.finish_measurement(number, m, started.build)
            self._recorder.tick()
            kept = self._archive.measurement(number, whole=False)
            if purpose == "candidate":
                self._state.put(replace(row, measurement_id=number, measurement=kept.measurement))
            self._state.add(kept)
            measured = Measured(
                *(self._id, self.current, row.candidate.sha256, number, purpose),
                *(m.status, m.verdict, m.speedup, m.low, m.high),
                best=self._state.incumbent,
                spend=self._spend(),
            )
            said = [self._recorder.say(measured), *self._recorder.warn()]
            if self._state.watch.alarms > alarms:
                watch = self._state.watch
                said.append(self._recorder.say(Alarmed(self._id, self.current, watch.alarms, watch.waiting)))
        yield from said

    def _measured(self, started: _Started) -> Measurement:
        """Measure, and once again if the measuring process was lost: a flicker should not end a long run."""
        candidate, build = started.row.candidate, started.build
        return twice(lambda: self._executor.measure(self._task, candidate, build, beat=started.beat))

    def _paid(self, started: _Started, result: Callable[[], Measurement]) -> Measurement:
        """Return a result; if there is none, book the time that its attempts took before the error is raised."""
        try:
            return result()
        except WorkerError as e:
            self._archive.add_lost(self._id, e.lost_s, f"measurement {started.number}")
            raise

    def _beat(self, row: CandidateRow) -> float | None:
        """Return the speed-up that the candidate must reach to be of use; None where its time is wanted in any case."""
        best = self._state.best
        if row.decision is None or not policy.may_stop_early(row.decision) or best is None or best.measurement is None:
            return None
        # An ambiguous best leads only until there is another: it must not stop the timing of another one early.
        return None if best.measurement.verdict == "ambiguous" else best.measurement.speedup

    def _floor(self) -> float | None:
        best = self._state.best
        return (
            price.floor_speedup(best.measurement, self._signatures, self._target) if best and best.measurement else None
        )

    def _history(self) -> Sequence[Trial]:
        if not self._settings.learn_across_runs:
            return self._state.trials
        return self._archive.trials(self._task.sha256, self._target.name)

    def _spend(self) -> Spend:
        return self._recorder.spend()

    def _searching(self, spend: Spend) -> budgets.Budget:
        """Return the budget that may be spent on searching.

        Where all of that is measured and nothing worked, there is nothing to confirm: what was kept back for it is
        searched with as well. A run that is tied to others keeps it, since what won there may still work here.
        """
        best, done = self._state.best, len(self._state.trials)
        # Other measurements may have ended early: only the best one is sure to have been measured in full.
        each_s = best.measurement.device_s if best and best.measurement else 0.0
        without = partial(budgets.searching, self._settings.budget, spend, each_s=each_s, visitors=self.keeps)
        kept = without(confirm=self.confirms)
        if self._island is None and best is None and done >= (kept.measurements or 0):
            return without(confirm=False)
        return kept

    def _pause(self) -> None:
        """Raise `Stopped` or `BudgetSpent` if the run must not begin anything new."""
        if self._stop.is_set():
            raise Stopped
        with self._archive.transaction():
            self._recorder.tick()
        spend = self._spend()
        spent = self._searching(spend).exhausted(spend)
        if spent is not None:
            raise BudgetSpent(spent)
