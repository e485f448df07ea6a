"""The rounds of a run: propose, gate, forecast, decide, measure.

`state.pending` says what is to be done next; here it is done, written in one transaction, and put into the state. So a
run that was killed anywhere goes on by loading its state again: fresh and resumed runs take the same path.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import replace

from forewarp.archive.rows import CandidateRow
from forewarp.core.protocols import Forecaster, ForecastMemory, Subject
from forewarp.core.values import Cost, Decision, Forecast
from forewarp.search import budget as budgets
from forewarp.search import policy
from forewarp.search.events import Decided, Escalated, Event, Forecasted, Proposed, Unanswered
from forewarp.search.measuring import measure, ready_gate, record_gated
from forewarp.search.run import BudgetSpent, SearchRun, Stopped
from forewarp.search.state import RunState, pending
from forewarp.surrogate.asking import ask
from forewarp.surrogate.cascade import DEAR, CascadeForecaster


def load(run: SearchRun) -> None:
    """Load the run from the archive, and give the forecaster its earlier forecasts back."""
    run.state = RunState.load(run.archive, run.id, forecasting=run.forecaster is not None)
    run.signatures = run.archive.signatures(run.task.sha256, run.target.name)
    if isinstance(run.forecaster, ForecastMemory):
        earlier = {r.candidate.sha256: r.forecast for r in run.state.rows.values() if r.forecast is not None}
        run.forecaster.recall(run.task, run.target, earlier)


def until_spent(run: SearchRun) -> Generator[Event, None, str | BudgetSpent]:
    """Carry out pending actions until there is no budget or nothing left to do; return why. Raises `Stopped`."""
    try:
        while (action := pending(run.state, run.settings, run.floor())).kind != "finish":
            rows = [run.state.rows[p] for p in action.proposals]
            match action.kind:
                case "propose":
                    yield from _propose(run, run.state.round + 1)
                case "check":
                    yield from check(run, rows)
                case "forecast":
                    yield from forecast(run, rows)
                case "decide":
                    yield from _decide(run, rows)
                case "measure":
                    yield from measure(run, rows)
        return action.reason
    except BudgetSpent as e:
        return e


def _propose(run: SearchRun, number: int) -> Generator[Event]:
    run.check_may_begin()
    ready_gate(run)
    s, known = run.settings, replace(run.state.known, signatures=run.signatures)
    room = s.proposals_per_round
    made = run.proposer.propose(run.task, run.target, known, room, random.Random(f"{s.seed}:{number}"))[:room]
    with run.step() as happened:
        added = run.archive.add_proposals(run.id, number, made)
        happened += [
            Proposed(
                *(run.id, number, p.candidate.sha256, place, p.candidate.language, p.candidate.tunables),
                *(p.proposer, p.parent, p.note, p.mate, p.operator),
            )
            for place, p in enumerate(made)
        ]
    run.state.begin(number)
    for place, (proposal, p) in enumerate(zip(added, made, strict=True)):
        run.state.put(CandidateRow.proposed(proposal, number, place, p))
    yield from happened


def check(run: SearchRun, rows: Sequence[CandidateRow]) -> Generator[Event]:
    """Send the round's proposals through the gate; raises `Stopped`."""
    with contextlib.closing(ready_gate(run).check([r.candidate for r in rows])) as answers:
        for row, gated in zip(rows, answers, strict=True):
            yield from record_gated(run, row, gated)
            if run.stop.is_set():
                raise Stopped


def forecast(run: SearchRun, rows: Sequence[CandidateRow]) -> Generator[Event]:
    """Forecast candidates, if there is a forecaster; raises `Stopped` and `BudgetSpent`."""
    if run.forecaster is None:
        return
    run.check_may_begin()
    number = run.round
    subjects = [Subject(r.candidate, r.build) for r in rows if r.build is not None]
    failed_before = _failed(run.forecaster)
    made = ask(run.forecaster, run.task, run.target, subjects, run.state.trials)
    forecasts = list(zip(rows, made, strict=True))
    with run.step() as happened:
        run.archive.add_forecasts(run.id, number, {r.proposal: f for r, f in forecasts})
        happened += [Forecasted(run.id, number, r.candidate.sha256, f) for r, f in forecasts if r.round == number]
        happened += _escalated(run, made)
        happened += _unanswered(run, made, failed_before)
    for row, f in forecasts:
        run.state.put(replace(row, forecast=f, forecast_round=number))
    yield from happened


def _escalated(run: SearchRun, made: Iterable[Forecast]) -> list[Event]:
    """Return events for the questions to each tier above the first; remembered answers are free and do not count."""
    costs: dict[str, list[Cost]] = {}
    for answer in (a for f in made for a in f.tiers[1:] if a.cost != Cost()):
        costs.setdefault(answer.forecaster, []).append(answer.cost)
    return [Escalated(run.id, run.round, tier, len(each), sum(each, Cost())) for tier, each in costs.items()]


def _unanswered(run: SearchRun, made: Iterable[Forecast], failed_before: int) -> list[Event]:
    """Return events for forecasters that failed in this round, or whose new answers were malformed (`raw_sum` 0)."""
    events: list[Event] = []
    failed = _failed(run.forecaster) - failed_before
    if failed and isinstance(run.forecaster, CascadeForecaster):
        events.append(Unanswered(run.id, run.round, DEAR, failed, run.forecaster.count.problem))
    malformed: dict[str, list[str]] = {}
    for answer in (a for f in made for a in f.tiers or (f,) if a.raw_sum <= 0 and a.cost != Cost()):
        malformed.setdefault(answer.forecaster, []).append(answer.rationale)
    return events + [Unanswered(run.id, run.round, name, len(notes), notes[0]) for name, notes in malformed.items()]


def _failed(forecaster: Forecaster | None) -> int:
    """Return how many candidates the dear tier of a cascade has failed to answer for so far."""
    return forecaster.count.failed if isinstance(forecaster, CascadeForecaster) else 0


def _decide(run: SearchRun, rows: Sequence[CandidateRow]) -> Generator[Event]:
    spend = run.spend()
    budget = run.search_budget(spend)
    prices = budgets.relative_prices([r.candidate for r in rows], run.state.trials, budget, spend)
    options = [
        policy.Option(r.proposal, r.candidate, r.forecast, not policy.is_known(r.decision), price, r.operator == "seed")
        for r, price in zip(rows, prices, strict=True)
    ]
    situation = policy.Situation(
        run.state.incumbent,
        [t.subject.candidate for t in run.state.trials],
        None if (left := budget.left("measurements", spend)) is None else round(left),
        fallback=run.state.watch.waiting,
    )
    rng = random.Random(f"{run.settings.seed}:{run.round}:decide")
    yield from decided(run, policy.decide(options, situation, run.settings, rng))


def decided(run: SearchRun, made: Mapping[int, Decision]) -> Generator[Event]:
    number, rows = run.round, [run.state.rows[p] for p in sorted(made)]
    with run.step() as happened:
        run.archive.add_decisions(run.id, number, made)
        happened += [
            Decided(run.id, number, r.candidate.sha256, made[r.proposal])
            for r in rows
            if r.round == number or made[r.proposal].action == "measure"
        ]
    for row in rows:
        run.state.put(replace(row, decision=made[row.proposal], decided_round=number))
    yield from happened
