"""Choice of a run's proposer, by its device and models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from forewarp.core.protocols import Executor, Proposer
from forewarp.core.values import Task
from forewarp.search.proposers.recorded import PoolProposer
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.tuning.planned import TunableForecaster

if TYPE_CHECKING:
    from forewarp.search.proposers.plans import Planner
    from forewarp.surrogate.models import LanguageModel

_AND = ","
_OWN = "own"


def make_proposer(
    executor: Executor, task: Task, models: Sequence[LanguageModel] = (), *, planner: Planner | None = None
) -> Proposer:
    """Return a proposer: the pool's own candidates on replay, else the models' and the tunables of what works.

    With a `planner`, models plan before they write.
    """
    recorded = executor.candidates(task)
    if recorded is not None:
        return PoolProposer(recorded)
    tunables = TunablesProposer(TunableForecaster(executor.target, executor.describe))
    if not models:
        return tunables
    from forewarp.search.proposers.llm import KernelWriter
    from forewarp.search.proposers.portfolio import Portfolio

    writers = [KernelWriter(m, planner=planner) for m in models]
    return Portfolio(writers, tunables)


def label(models: Sequence[str], base_url: str | None, *, replaying: bool) -> str:
    """Name a run's proposer so that a resumed run can make the same one again."""
    if replaying or not models:
        return "pool" if replaying else "tunables"
    return " ".join(["llm", _AND.join(models), *([base_url] if base_url else [])])


def from_label(text: str) -> tuple[list[str], str | None, bool]:
    """Return models, base URL and whether a pool was replayed."""
    kind, *rest = text.split(" ")
    return rest[0].split(_AND) if rest else [], rest[1] if rest[1:] else None, kind == "pool"


def own_label(name: str) -> str:
    """Name a proposer or a forecaster that the caller made: nobody else can make it again."""
    return f"{_OWN} {name}"


def own_name(text: str) -> str | None:
    """Return the name of a part that the caller of the run made; None where the label is of another one."""
    kind, _, name = text.partition(" ")
    return name if kind == _OWN else None
