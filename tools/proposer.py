"""Choice of a run's proposer, by its device, models and archive."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forewarp.archive.rows import RunRow
from forewarp.archive.store import Archive
from forewarp.core.protocols import Executor, Proposer
from forewarp.core.values import Candidate, Measurement, Target, Task
from forewarp.search.proposers.recorded import Archived, ArchivedProposer, PoolProposer
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.tools.suite_modules import identical
from forewarp.tuning.planned import TunableForecaster

if TYPE_CHECKING:
    from forewarp.search.proposers.plans import Planner
    from forewarp.surrogate.models import LanguageModel

RUNS_READ = 200
"""Latest runs that are looked through for kernels of similar tasks."""

_SIMILAR = 0.5
"""Share of words that two references of different families have in common when their tasks count as similar."""

_ARCHIVED = "+archived"
_AND = ","
_OWN = "own"


def make_proposer(
    executor: Executor,
    task: Task,
    model: LanguageModel | Sequence[LanguageModel] | None,
    *,
    archive: Archive | None = None,
    resumed: RunRow | None = None,
    planner: Planner | None = None,
) -> Proposer:
    """Return a proposer: the pool's own candidates on replay, else the models' and the tunables of what works.

    With an `archive`, the best kernels of earlier runs of this task on this target are proposed first, and models see
    one of a similar task. Runs that are to be compared must not have it. `resumed` is the run that is taken up again.
    With a `planner`, models plan before they write.
    """
    recorded = executor.candidates(task)
    if recorded is not None:
        return PoolProposer(recorded)
    models = [] if model is None else list(model) if isinstance(model, Sequence) else [model]
    archived = None if archive is None else ArchivedProposer(earlier_kernels(archive, task, executor.target, resumed))
    tunables = TunablesProposer(TunableForecaster(executor.target, executor.describe))
    if not models and archived is None:
        return tunables
    from forewarp.search.proposers.llm import KernelWriter
    from forewarp.search.proposers.portfolio import Portfolio

    writers = [KernelWriter(m, archived=archived, planner=planner) for m in models]
    return Portfolio(writers, tunables, archived=archived)


def earlier_kernels(archive: Archive, task: Task, target: Target, resumed: RunRow | None = None) -> list[Archived]:
    """Return what was measured for this task on this target, and the winners of similar tasks' latest runs there.

    Similar is a task of the same family, or one whose reference shares half of its words. For a run that is `resumed`,
    what was measured since it began is left out, its own first of all: it goes on with what it knew.
    """
    # The reference measured against itself, for its time, is no kernel to begin with.
    itself = identical(task).sha256
    own = archive.measurements(task_sha256=task.sha256, target_name=target.name)
    own = [r for r in own if r.candidate.sha256 != itself]
    if resumed is not None:
        own = [r for r in own if r.run != resumed.id and r.finished < resumed.created]
    found = [
        _archived(task, r.candidate, r.measurement, same=True)
        for r in own
        if r.measurement is not None and r.measurement.anchor == "reference"
    ]
    for run in archive.runs(limit=RUNS_READ):
        if run.target.name != target.name or run.task.sha256 == task.sha256 or not _similar(task, run.task):
            continue
        if resumed is not None and run.created > resumed.created:
            continue
        best = archive.best(run.id)
        if best is not None and best.measurement is not None:
            found.append(_archived(run.task, best.candidate, best.measurement, same=False))
    return found


def label(model: str | Sequence[str] | None, base_url: str | None, *, replaying: bool, archived: bool = False) -> str:
    """Name a run's proposer so that a resumed run can make the same one again."""
    if replaying:
        return "pool"
    models = "" if model is None else model if isinstance(model, str) else _AND.join(model)
    kind = ("llm" if models else "tunables") + (_ARCHIVED if archived else "")
    return " ".join(part for part in (kind, models, base_url if models else "") if part)


def from_label(text: str) -> tuple[str | None, str | None, bool]:
    """Return model, base URL and whether a pool was replayed; several models are one text (see `several`)."""
    kind, *rest = text.split(" ")
    model, base_url = (*rest, None, None)[:2]
    return model, base_url, kind == "pool"


def own_label(name: str) -> str:
    """Name a proposer or a forecaster that the caller made: nobody else can make it again."""
    return f"{_OWN} {name}"


def own_name(text: str) -> str | None:
    """Return the name of a part that the caller of the run made; None where the label is of another one."""
    kind, _, name = text.partition(" ")
    return name if kind == _OWN else None


def several(models: str | None) -> list[str]:
    """Return the models that a label's text names."""
    return models.split(_AND) if models else []


def reads_archive(text: str) -> bool:
    """Return whether a label is of a run that was given kernels of earlier ones."""
    return text.split(" ")[0].endswith(_ARCHIVED)


def _archived(task: Task, candidate: Candidate, measurement: Measurement, *, same: bool) -> Archived:
    return Archived(task.name, task.family, candidate, measurement, same)


def _similar(one: Task, other: Task) -> bool:
    if one.family and one.family == other.family:
        return True
    words, others = (set(re.findall(r"[A-Za-z_]\w+", t.reference)) for t in (one, other))
    return len(words & others) >= _SIMILAR * max(1, len(words | others))
