"""The rounds of a run: propose, gate, forecast, decide, measure.

Each phase first looks in the archive for what is already done, then does the rest, and writes each result in one
transaction. So a run that was killed anywhere goes on by simply entering its last round again: fresh and resumed runs
take the same path.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Generator, Mapping, Sequence

from forewarp.archive.rows import CandidateRow, Purpose, RunRow
from forewarp.archive.store import Archive
from forewarp.core.errors import ForewarpError, WorkerError
from forewarp.core.protocols import Attempt, Executor, Forecaster, Known, Proposal, Proposer, Subject, Trial
from forewarp.core.values import Build, Cost, Forecast, Measurement, Spend
from forewarp.search import budget as budgets
from forewarp.search import policy
from forewarp.search.events import (
    Accepted,
    Decided,
    Escalated,
    Event,
    Forecasted,
    Measured,
    Measuring,
    Proposed,
    Rejected,
    Unanswered,
)
from forewarp.search.gate import Gate, Gated
from forewarp.search.recorder import Recorder
from forewarp.search.settings import SearchSettings
from forewarp.surrogate.cascade import CascadeForecaster, TierCount

MAX_FRUITLESS_ROUNDS = 10


class Stopped(Exception):
    """`Search.stop()` was called."""


class _Spent(Exception):
    def __init__(self, currency: str) -> None:
        super().__init__(currency)
        self.currency = currency


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
    ) -> None:
        self._archive, self._id, self._task, self._target = archive, run.id, run.task, run.target
        self._executor, self._proposer, self._forecaster = executor, proposer, forecaster
        self._settings, self._recorder, self._stop = settings, recorder, stop
        # Looking up once more what was recorded would confirm nothing.
        self._confirms = settings.confirm and executor.candidates(run.task) is None
        self._builds: dict[int, Build] = {}
        self._gate: Gate | None = None

    def current(self) -> int:
        """Return the round that the run is in."""
        rows = self._archive.candidates(self._id)
        return max((max(r.round, r.forecast_round or 0, r.decided_round or 0) for r in rows), default=0)

    def until_spent(self) -> Generator[Event, None, str]:
        """Go through rounds until there is no budget or no candidate left; returns the reason. Raises `Stopped`."""
        number = self.current()
        try:
            while True:
                ended = yield from self._round(number)
                if ended:
                    return ended
                number += 1
        except _Spent as e:
            return budgets.in_words(e.currency, self._settings.budget)

    def confirm(self) -> Generator[Event]:
        """Measure the winner once more, if the settings ask for it and the budget allows it."""
        best = self._archive.best(self._id)
        if not self._confirms or best is None:
            return
        states = {m.state for m in self._archive.measurements(run=self._id) if m.purpose == "confirm"}
        if "done" in states:
            return
        if "started" not in states and self._settings.budget.exhausted(self._spend()):
            return
        row = next(r for r in self._archive.candidates(self._id) if r.proposal == best.proposal)
        yield from self._measure_one(self.current(), row, "confirm")

    def _round(self, number: int) -> Generator[Event, None, str]:
        """Do what is left of one round; returns why the run ends, or ""."""
        rows = self._archive.candidates(self._id)
        if not any(number in (r.round, r.forecast_round, r.decided_round) for r in rows):
            self._pause()
            yield from self._propose(number, rows)
        yield from self._check(number)
        rows = self._archive.candidates(self._id)
        open_ones = self._open(number, rows)
        if not any(r.round == number for r in rows) and not open_ones and not _undone(number, rows):
            return "there are no more candidates"
        if _fruitless(rows, number):
            return f"nothing passed the gate in {MAX_FRUITLESS_ROUNDS} rounds"
        if open_ones and not any(r.decided_round == number for r in rows):
            yield from self._forecast(number, [r for r in open_ones if _to_forecast(r, number)])
            yield from self._decide(number)
        yield from self._measure(number)
        return ""

    def _propose(self, number: int, rows: Sequence[CandidateRow]) -> Generator[Event]:
        s = self._settings
        made = self._proposer.propose(
            self._task,
            self._target,
            Known([_attempt(r) for r in rows], self._history(), frozenset(r.candidate.sha256 for r in rows)),
            s.proposals_per_round,
            random.Random(f"{s.seed}:{number}"),
        )[: s.proposals_per_round]
        with self._archive.transaction():
            self._archive.add_proposals(self._id, number, made)
            said = [
                self._recorder.say(
                    Proposed(
                        *(self._id, number, place, p.candidate.sha256, p.candidate.language, p.candidate.tunables),
                        *(p.proposer, p.parent, p.note),
                    )
                )
                for place, p in enumerate(made)
            ]
            self._recorder.tick()
            said += self._recorder.warn()
        yield from said

    def _check(self, number: int) -> Generator[Event]:
        """Send what the round proposed through the gate."""
        rows = self._archive.candidates(self._id)
        pending = [r for r in rows if r.outcome == "pending"]
        if not pending:
            return
        with contextlib.closing(self._ready_gate(rows).check([r.candidate for r in pending])) as answers:
            for row, gated in zip(pending, answers, strict=True):
                yield self._gated(number, row, gated)
                if self._stop.is_set():
                    raise Stopped

    def _gated(self, number: int, row: CandidateRow, gated: Gated) -> Event:
        kernel = row.candidate.sha256
        with self._archive.transaction():
            self._archive.set_outcome(row.proposal, gated.outcome, gated.reason, gated.build)
            self._recorder.tick()
            if gated.outcome != "passed" or gated.build is None:
                return self._recorder.say(Rejected(self._id, number, kernel, gated.outcome, gated.reason))
            self._builds[row.proposal] = gated.build
            return self._recorder.say(Accepted(self._id, number, kernel, gated.build.seconds))

    def _ready_gate(self, rows: Sequence[CandidateRow]) -> Gate:
        if self._gate is None:
            signatures = self._executor.describe(self._task)
            self._archive.add_signatures(self._task, self._target, signatures)
            self._gate = Gate(self._executor, self._task, signatures, self._settings.compile_threads)
            for row in rows:
                self._gate.remember(row.candidate, row.outcome, row.build)
        return self._gate

    def _open(self, number: int, rows: Sequence[CandidateRow]) -> list[CandidateRow]:
        """Return the round's candidates that passed, and the best of those skipped earlier, in order."""
        waiting = [r for r in rows if r.outcome == "passed" and r.measurement_id is None]
        fresh = [r for r in waiting if r.round == number]
        if self._forecaster is None:
            return fresh
        skipped = sorted(
            (r for r in waiting if r.round != number),
            key=lambda r: (-(r.decision.score if r.decision else 0.0), r.proposal),
        )
        return sorted([*skipped[: self._settings.reconsider], *fresh], key=lambda r: r.proposal)

    def _forecast(self, number: int, rows: Sequence[CandidateRow]) -> Generator[Event]:
        if self._forecaster is None or not rows:
            return
        self._pause()
        subjects = [Subject(r.candidate, r.build) for r in rows if r.build is not None]
        if isinstance(self._forecaster, CascadeForecaster):
            recorded = {r.candidate.sha256: r.forecast for r in rows if r.forecast is not None}
            self._forecaster.recall(self._task, self._target, recorded)
        before = _tier_counts(self._forecaster)
        made = self._forecaster.forecast(self._task, self._target, subjects, self._history())
        if len(made) != len(rows):
            raise ForewarpError(
                f"forecaster {self._forecaster.name} gave {len(made)} forecasts for {len(rows)} subjects"
            )
        with self._archive.transaction():
            self._archive.add_forecasts(self._id, number, {r.proposal: f for r, f in zip(rows, made, strict=True)})
            said = [
                self._recorder.say(Forecasted(self._id, number, r.candidate.sha256, f))
                for r, f in zip(rows, made, strict=True)
                if r.round == number
            ]
            said += [self._recorder.say(event) for event in _escalated(self._id, number, made)]
            missing = _unanswered(self._id, number, made, before, _tier_counts(self._forecaster))
            said += [self._recorder.say(event) for event in missing]
            self._recorder.tick()
            said += self._recorder.warn()
        yield from said

    def _decide(self, number: int) -> Generator[Event]:
        open_ones = self._open(number, self._archive.candidates(self._id))
        options = [policy.Option(r.proposal, r.candidate, r.forecast, r.round == number) for r in open_ones]
        best = self._archive.best(self._id)
        situation = policy.Situation(
            best.measurement.speedup if best and best.measurement else None,
            [t.subject.candidate for t in self._history()],
            budgets.measurements_left(self._searching(), self._spend()),
        )
        rng = random.Random(f"{self._settings.seed}:{number}:decide")
        made = policy.decide(options, situation, self._settings, rng)
        with self._archive.transaction():
            self._archive.add_decisions(self._id, number, made)
            said = [
                self._recorder.say(Decided(self._id, number, r.candidate.sha256, made[r.proposal]))
                for r in open_ones
                if r.round == number or made[r.proposal].action == "measure"
            ]
            self._recorder.tick()
        yield from said

    def _measure(self, number: int) -> Generator[Event]:
        for row in _undone(number, self._archive.candidates(self._id)):
            # One that was announced before a kill is booked already: it is owed, whatever the budget says by now.
            if row.measurement_id is None:
                self._pause()
            yield from self._measure_one(number, row, "candidate")

    def _measure_one(self, number: int, row: CandidateRow, purpose: Purpose) -> Generator[Event]:
        kernel = row.candidate.sha256
        # After a resume the artefact may be gone; the executor's cache makes this free where it is not.
        build = self._builds.get(row.proposal) or self._executor.compile(self._task, row.candidate)
        with self._archive.transaction():
            number_of = self._archive.begin_measurement(
                self._task, self._target, row.candidate, run=self._id, proposal=row.proposal, purpose=purpose
            )
            measuring = self._recorder.say(Measuring(self._id, number, kernel, number_of, purpose))
            self._recorder.tick()
        yield measuring
        m = self._measured(row, build)
        with self._archive.transaction():
            self._archive.finish_measurement(number_of, m, build)
            self._recorder.tick()
            best = self._archive.best(self._id)
            measured = self._recorder.say(
                Measured(
                    *(self._id, number, kernel, number_of, purpose, m.status, m.verdict, m.speedup, m.low, m.high),
                    best=best.measurement.speedup if best and best.measurement else None,
                    spend=self._spend(),
                )
            )
            said = [measured, *self._recorder.warn()]
        yield from said

    def _measured(self, row: CandidateRow, build: Build) -> Measurement:
        """Measure, and once again if the measuring process was lost: a flicker should not end a long run."""
        try:
            return self._executor.measure(self._task, row.candidate, build)
        except WorkerError:
            return self._executor.measure(self._task, row.candidate, build)

    def _history(self) -> list[Trial]:
        run = None if self._settings.learn_across_runs else self._id
        return self._archive.trials(self._task.sha256, self._target.name, run)

    def _spend(self) -> Spend:
        return self._recorder.spend()

    def _searching(self) -> budgets.Budget:
        return budgets.searching(self._settings.budget, confirm=self._confirms)

    def _pause(self) -> None:
        """Raise `Stopped` or `_Spent` if the run must not begin anything new."""
        if self._stop.is_set():
            raise Stopped
        with self._archive.transaction():
            self._recorder.tick()
        spent = self._searching().exhausted(self._spend())
        if spent is not None:
            raise _Spent(spent)


def _attempt(r: CandidateRow) -> Attempt:
    proposal = Proposal(r.candidate, r.proposer, r.parent, r.note, r.cost, r.mate, r.operator)
    return Attempt(proposal, r.outcome, r.reason, r.build, r.forecast, r.measurement)


def _to_forecast(row: CandidateRow, number: int) -> bool:
    """Return whether a candidate needs a forecast in this round; one that was paid for is not bought again.

    A cascade keeps what it paid for, and pools it with the newest forecast of its free tier.
    """
    if row.forecast is None or row.forecast.tiers:
        return row.forecast_round != number
    cost = row.forecast.cost
    return row.forecast_round != number and cost.dollars == 0 and cost.input_tokens + cost.output_tokens == 0


def _escalated(run: str, number: int, made: Sequence[Forecast]) -> list[Event]:
    """Return what the round asked of each tier above the first; remembered answers cost nothing and do not count."""
    asked: dict[str, list[Cost]] = {}
    for forecast in made:
        for answer in forecast.tiers[1:]:
            if answer.cost != Cost():
                asked.setdefault(answer.forecaster, []).append(answer.cost)
    return [Escalated(run, number, tier, len(costs), sum(costs, Cost())) for tier, costs in asked.items()]


def _tier_counts(forecaster: Forecaster) -> dict[str, TierCount]:
    return forecaster.counts if isinstance(forecaster, CascadeForecaster) else {}


def _unanswered(
    run: str, number: int, made: Sequence[Forecast], before: Mapping[str, TierCount], after: Mapping[str, TierCount]
) -> list[Event]:
    """Return for whom the round's forecasters failed, and whose new answers were malformed (`raw_sum` 0)."""
    found: list[Event] = []
    for label, count in after.items():
        if failed := count.failed - before[label].failed:
            found.append(Unanswered(run, number, label, failed, count.problem))
    malformed: dict[str, list[str]] = {}
    for answer in (a for f in made for a in f.tiers or (f,)):
        if answer.raw_sum <= 0 and answer.cost != Cost():
            malformed.setdefault(answer.forecaster, []).append(answer.rationale)
    return found + [Unanswered(run, number, name, len(notes), notes[0]) for name, notes in malformed.items()]


def _undone(number: int, rows: Sequence[CandidateRow]) -> list[CandidateRow]:
    """Return what the round decided to measure and did not yet, in the order decided."""
    chosen = [
        (r.decision.numbers.get("order", 0.0), r.proposal, r)
        for r in rows
        if r.decided_round == number and r.decision and r.decision.action == "measure" and r.measurement is None
    ]
    return [r for _, _, r in sorted(chosen, key=lambda c: c[:2])]


def _fruitless(rows: Sequence[CandidateRow], number: int) -> bool:
    """Return whether the last rounds brought nothing to measure; a proposer that only repeats itself ends the run."""
    last = max((max(r.round, r.decided_round or 0) for r in rows if r.outcome == "passed"), default=-1)
    return number - last >= MAX_FRUITLESS_ROUNDS
