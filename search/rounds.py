"""The rounds of a run: propose, gate, forecast, decide, measure.

`state.pending` says what is to be done next; here it is done, written in one transaction, and put into the state. So a
run that was killed anywhere goes on by loading its state again: fresh and resumed runs take the same path.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

from forewarp.archive.rows import CandidateRow
from forewarp.core.errors import ForewarpError
from forewarp.core.protocols import Borrowing, Proposal, Recalling, Subject
from forewarp.core.values import Decision
from forewarp.gpu_runner.pipeline import compile_threads
from forewarp.search import policy, price
from forewarp.search.context import RunContext
from forewarp.search.ends import BudgetSpent, Stopped
from forewarp.search.events import Accepted, Decided, Event, Forecasted, Proposed, Rejected
from forewarp.search.gate import Gate, Gated
from forewarp.search.measuring import measure
from forewarp.search.state import Ask, Check, Decide, Finish, Measure, Propose, RunState, pending
from forewarp.search.tiers import counts, escalated, unanswered


def load(run: RunContext) -> None:
    """Load the run from the archive, and give the forecaster its earlier forecasts back."""
    run.state = RunState.load(run.archive, run.id, forecasting=run.forecaster is not None)
    run.signatures = run.archive.signatures(run.task.sha256, run.target.name)
    if isinstance(run.forecaster, Recalling):
        said = {r.candidate.sha256: r.forecast for r in run.state.rows.values() if r.forecast is not None}
        run.forecaster.recall(run.task, run.target, said)


def until_spent(run: RunContext) -> Generator[Event, None, Finish | BudgetSpent]:
    """Carry out pending actions until there is no budget or nothing left to do; returns which. Raises `Stopped`."""
    try:
        while True:
            match pending(run.state, run.settings, run.floor()):
                case Propose(number):
                    yield from _propose(run, number)
                case Check(proposals):
                    yield from check(run, proposals)
                case Ask(proposals):
                    yield from forecast(run, proposals)
                case Decide(proposals):
                    yield from _decide(run, proposals)
                case Measure():
                    yield from measure(run, [r for r in run.state.chosen if r.measurement is None])
                case Finish() as finish:
                    return finish
    except BudgetSpent as e:
        return e


def _propose(run: RunContext, number: int) -> Generator[Event]:
    run.check_may_begin()
    s = run.settings
    known = run.state.known
    if s.learn_across_runs:
        known = replace(known, trials=run.trials())
    rng = random.Random(f"{s.seed}:{number}")
    migrants = run.island.migrants(number, known.seen, s.proposals_per_round // 2) if run.island else []
    if run.island is not None:
        run.check_may_begin()  # it may have waited long for the others
    held, room = {m.candidate.sha256 for m in migrants}, s.proposals_per_round - len(migrants)
    made = run.proposer.propose(run.task, run.target, known, room, rng)[:room]
    yield from enter(run, number, [*migrants, *(p for p in made if p.candidate.sha256 not in held)])


def enter(run: RunContext, number: int, made: Sequence[Proposal]) -> Generator[Event, None, list[int]]:
    """Begin a round with these proposals; returns their ids."""
    with run.archive.transaction():
        added = run.archive.add_proposals(run.id, number, made)
        said = [
            run.recorder.say(
                Proposed(
                    *(run.id, number, place, p.candidate.sha256, p.candidate.language, p.candidate.tunables),
                    *(p.proposer, p.parent, p.note, p.mate, p.operator),
                )
            )
            for place, p in enumerate(made)
        ]
        run.recorder.tick()
        said += run.recorder.warn()
    run.state.begin(number)
    for proposal, place, p in zip(added, range(len(made)), made, strict=True):
        run.state.put(CandidateRow.proposed(proposal, number, place, p))
    yield from said
    return added


def check(run: RunContext, proposals: Sequence[int]) -> Generator[Event]:
    """Send the round's proposals through the gate."""
    rows = [run.state.rows[p] for p in proposals]
    with contextlib.closing(_ready_gate(run).check([r.candidate for r in rows])) as answers:
        for row, gated in zip(rows, answers, strict=True):
            yield _gated(run, row, gated)
            if run.stop.is_set():
                raise Stopped


def _gated(run: RunContext, row: CandidateRow, gated: Gated) -> Event:
    number, kernel = run.round, row.candidate.sha256
    with run.archive.transaction():
        kept = run.archive.set_outcome(row.proposal, gated.outcome, gated.reason, gated.build)
        run.recorder.tick()
        if gated.outcome != "passed" or gated.build is None:
            event: Event = Rejected(run.id, number, kernel, gated.outcome, gated.reason)
        else:
            event = Accepted(run.id, number, kernel, gated.build.seconds)
            run.builds[row.proposal] = gated.build
        run.recorder.say(event)
    run.state.put(replace(row, outcome=gated.outcome, reason=gated.reason, build=kept))
    return event


def _ready_gate(run: RunContext) -> Gate:
    if run.gate is None:
        run.signatures = run.executor.describe(run.task)
        run.archive.add_signatures(run.task, run.target, run.signatures)
        threads = compile_threads(run.executor, run.settings.compile_threads)
        run.gate = Gate(run.executor, run.task, run.signatures, threads)
        for row in run.state.rows.values():
            run.gate.remember(row.candidate, row.outcome, row.build)
    return run.gate


def forecast(run: RunContext, proposals: Sequence[int]) -> Generator[Event]:
    """Forecast proposals, if there is a forecaster; raises `Stopped` and `BudgetSpent`."""
    if run.forecaster is None:
        return
    run.check_may_begin()
    number, rows = run.round, [run.state.rows[p] for p in proposals]
    subjects = [Subject(r.candidate, r.build) for r in rows if r.build is not None]
    before = counts(run.forecaster)
    if run.island is not None and isinstance(run.forecaster, Borrowing):
        run.forecaster.lend(run.task, run.target, run.island.elsewhere(number))
    made = run.forecaster.forecast(run.task, run.target, subjects, run.trials())
    if len(made) != len(rows):
        raise ForewarpError(f"forecaster {run.forecaster.name} gave {len(made)} forecasts for {len(rows)} subjects")
    with run.archive.transaction():
        run.archive.add_forecasts(run.id, number, dict(zip(proposals, made, strict=True)))
        said = [
            run.recorder.say(Forecasted(run.id, number, r.candidate.sha256, f))
            for r, f in zip(rows, made, strict=True)
            if r.round == number
        ]
        said += [run.recorder.say(event) for event in escalated(run.id, number, made)]
        missing = unanswered(run.id, number, made, before, counts(run.forecaster))
        said += [run.recorder.say(event) for event in missing]
        run.recorder.tick()
        said += run.recorder.warn()
    for row, forecast in zip(rows, made, strict=True):
        run.state.put(replace(row, forecast=forecast, forecast_round=number))
    yield from said


def _decide(run: RunContext, proposals: Sequence[int]) -> Generator[Event]:
    number, rows = run.round, [run.state.rows[p] for p in proposals]
    spend = run.spend()
    budget = run.search_budget(spend)
    prices = price.relative([r.candidate for r in rows], run.state.trials, budget, spend)
    options = [
        policy.Option(r.proposal, r.candidate, r.forecast, not policy.is_known(r.decision), cost)
        for r, cost in zip(rows, prices, strict=True)
    ]
    situation = policy.Situation(
        run.state.incumbent,
        [t.subject.candidate for t in run.trials()],
        None if (left := budget.left("measurements", spend)) is None else round(left),
        fallback=run.state.watch.waiting,
    )
    rng = random.Random(f"{run.settings.seed}:{number}:decide")
    yield from decided(run, policy.decide(options, situation, run.settings, rng))


def decided(run: RunContext, made: Mapping[int, Decision]) -> Generator[Event]:
    """Record and apply decisions, by the proposals' ids."""
    number, rows = run.round, [run.state.rows[p] for p in sorted(made)]
    with run.archive.transaction():
        run.archive.add_decisions(run.id, number, made)
        said = [
            run.recorder.say(Decided(run.id, number, r.candidate.sha256, made[r.proposal]))
            for r in rows
            if r.round == number or made[r.proposal].action == "measure"
        ]
        run.recorder.tick()
    for row in rows:
        run.state.put(replace(row, decision=made[row.proposal], decided_round=number))
    yield from said
