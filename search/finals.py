"""End of a run: its winner is measured again, and on shapes nobody tuned for.

What was done before a kill is not done again.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from forewarp.core import serde
from forewarp.core.values import Candidate
from forewarp.search import holdout, measuring
from forewarp.search.events import Event, Examined
from forewarp.search.run import SearchRun
from forewarp.search.summary import best_of


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
