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
    executor: Executor,
    task: Task,
    model: LanguageModel | Sequence[LanguageModel] | None,
    *,
    planner: Planner | None = None,
) -> Proposer:
    """Return a proposer: the pool's own candidates on replay, else the models' and the tunables of what works.

    With a `planner`, models plan before they write.
    """
    recorded = executor.candidates(task)
    if recorded is not None:
        return PoolProposer(recorded)
    models = [] if model is None else list(model) if isinstance(model, Sequence) else [model]
    tunables = TunablesProposer(TunableForecaster(executor.target, executor.describe))
    if not models:
        return tunables
    from forewarp.search.proposers.llm import KernelWriter
    from forewarp.search.proposers.portfolio import Portfolio

    writers = [KernelWriter(m, planner=planner) for m in models]
    return Portfolio(writers, tunables)


def label(model: str | Sequence[str] | None, base_url: str | None, *, replaying: bool) -> str:
    """Name a run's proposer so that a resumed run can make the same one again."""
    if replaying:
        return "pool"
    models = "" if model is None else model if isinstance(model, str) else _AND.join(model)
    kind = "llm" if models else "tunables"
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
