"""End of a run: other targets' winners are tried, its own is measured again, and on shapes nobody tuned for.

What was done before a kill is not done again.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

from forewarp.archive.rows import CandidateRow
from forewarp.core import serde
from forewarp.core.protocols import Proposal
from forewarp.core.values import Candidate, Decision
from forewarp.search import holdout, measuring, rounds
from forewarp.search.events import Event, Examined
from forewarp.search.gate import twin_of
from forewarp.search.run import BudgetSpent, SearchRun
from forewarp.search.summary import best_of

VISIT = Decision("measure", "it won on another target", 0.0, {"visit": 1.0})


def receive(run: SearchRun, visitors: Sequence[Proposal]) -> Generator[Event]:
    """Measure other targets' winners that were not measured here, except those that the gate rejects.

    Raises `Stopped`; a spent budget leaves the rest unmeasured.
    """
    state = run.state
    run.visits_kept = 0
    unseen = [v for v in visitors if v.candidate.sha256 not in state.known.seen]
    if unseen or _undecided(run, visitors):
        yield from rounds.enter(run, state.round + 1, unseen)
    unchecked = [r for r in state.fresh if r.outcome == "pending"]
    if unchecked:
        yield from rounds.check(run, unchecked)
    try:
        yield from rounds.forecast(run, [r for r in _due(run, visitors) if r.forecast is None])
        yield from rounds.decided(run, {r.proposal: VISIT for r in _undecided(run, visitors)})
        yield from measuring.measure(run, _due(run, visitors))
    except BudgetSpent:
        return


def _due(run: SearchRun, visitors: Sequence[Proposal]) -> list[CandidateRow]:
    """Return visitors' rows that passed the gate and have no result.

    One that compiles to the code of another kernel here is represented by that.
    """
    rows = run.state.rows.values()
    wanted = {v.candidate.sha256 for v in visitors}
    twins = {twin_of(r) for r in rows if r.candidate.sha256 in wanted}
    return [
        r
        for r in rows
        if (r.candidate.sha256 in wanted or r.candidate.short in twins)
        and r.outcome == "passed"
        and r.measurement is None
    ]


def _undecided(run: SearchRun, visitors: Sequence[Proposal]) -> list[CandidateRow]:
    """Return those that are due and were not chosen to be measured yet."""
    return [r for r in _due(run, visitors) if r.decision is None or r.decision.action != "measure"]


def confirm(run: SearchRun) -> Generator[Event]:
    """Measure the winner again, and try it on near shapes, if settings and budget allow it."""
    best = run.state.best
    if not run.confirms or best is None:
        return
    states = {m.state for m in run.archive.measurements(run=run.id) if m.purpose == "confirm"}
    if "done" not in states:
        if "started" not in states and run.settings.budget.exhausted(run.spend()):
            return
        yield from measuring.measure(run, [best], "confirm")
    winner, _ = best_of(run.archive, run.id)
    # Another winner, or none, means that the confirmation failed: there is nothing to say of other shapes.
    if winner is None or not winner.confirmed or not run.settings.holdout:
        return
    if best.candidate.sha256 not in run.archive.holdouts(run.id):
        yield from _examine(run, best.candidate)


def _examine(run: SearchRun, candidate: Candidate) -> Generator[Event]:
    """Try the winner on shapes that it was not tuned for."""
    if run.stop.is_set() or run.settings.budget.exhausted(replace(run.spend(), measurements=0)):
        return
    found = holdout.examine(run.executor, run.task, candidate, run.stop.is_set)
    if found is None:
        return
    kernel = candidate.sha256
    with run.step() as happened:
        run.archive.add_holdout(run.id, kernel, serde.to_data(found))
        if found.device_s:
            run.archive.add_spend(run.id, "device_s", found.device_s, f"holdout of {candidate.short}")
        happened.append(Examined(run.id, run.round, kernel, found.generalises, found.said))
    yield from happened
