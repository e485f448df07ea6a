"""End of a run: its best programs are tried on shapes nobody tuned for, and the winner is measured again.

What was done before a kill is not done again.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from forewarp.archive.rows import CandidateRow
from forewarp.core import serde
from forewarp.core.values import Candidate
from forewarp.search import holdout, measuring
from forewarp.search.events import Event, Examined
from forewarp.search.run import SearchRun

ROBUST_SHARE = 0.9
"""Share of the best one's speed-up from which another program is preferred where the best one fails on near shapes."""
MOST_EXAMINED = 3


def confirm(run: SearchRun) -> Generator[Event]:
    """Choose the winner, by near shapes too, and measure it again, if settings and budget allow it."""
    best = run.state.best
    if not run.confirms or best is None:
        return
    states = {m.state for m in run.archive.measurements(run=run.id) if m.purpose == "confirm"}
    if "done" in states or ("started" not in states and run.settings.budget.exhausted(run.spend())):
        return
    if run.settings.holdout:
        best = yield from _preferred(run, best)
    yield from measuring.measure(run, [best], "confirm")


def _preferred(run: SearchRun, best: CandidateRow) -> Generator[Event, None, CandidateRow]:
    """Return the first of the best programs that fails on no near shape it takes, else the best."""
    for row in run.state.leaders(ROBUST_SHARE)[:MOST_EXAMINED]:
        kernel = row.candidate.sha256
        if kernel not in run.archive.holdouts(run.id):
            yield from _examine(run, row.candidate)
        found = run.archive.holdouts(run.id).get(kernel)
        if found is None:
            break
        if found["generalises"] != "no":
            return row
    return best


def _examine(run: SearchRun, candidate: Candidate) -> Generator[Event]:
    """Try a program on shapes that it was not tuned for."""
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
