"""Which proposer goes with a device and a model."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from forewarp.core.protocols import Executor, Known, Proposal, Proposer
from forewarp.core.values import Target, Task
from forewarp.search.proposers.pool import PoolProposer
from forewarp.search.proposers.tunables import TunablesProposer

if TYPE_CHECKING:
    from forewarp.surrogate.models import LanguageModel


class Chain:
    """Asks several proposers in turn; each fills what those before it left open.

    A language model writes a few programs per round, and the tunables of those that work fill the rest of the round.
    """

    def __init__(self, *proposers: Proposer) -> None:
        self.name = "+".join(p.name for p in proposers)
        self._proposers = proposers

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        """Return up to `count` new candidates, those of the first proposer first."""
        made: list[Proposal] = []
        for proposer in self._proposers:
            taken = known.seen | {p.candidate.sha256 for p in made}
            made += proposer.propose(task, target, replace(known, seen=taken), count - len(made), rng)
        return made


def make_proposer(executor: Executor, task: Task, model: LanguageModel | None) -> Proposer:
    """Return a proposer: the pool's own candidates on replay, else the model's and the tunables of what works."""
    recorded = executor.candidates(task)
    if recorded is not None:
        return PoolProposer(recorded)
    if model is None:
        return TunablesProposer()
    from forewarp.search.proposers.llm import LlmProposer

    return Chain(LlmProposer(model), TunablesProposer())


def label(model: str | None, base_url: str | None, *, replaying: bool) -> str:
    """Name a run's proposer so that a resumed run can make the same one again."""
    if replaying:
        return "pool"
    if model is None:
        return "tunables"
    return f"llm {model} {base_url}" if base_url else f"llm {model}"


def from_label(text: str) -> tuple[str | None, str | None, bool]:
    """Return model, base URL and whether a pool was replayed."""
    kind, *rest = text.split(" ")
    model, base_url = (*rest, None, None)[:2]
    return model, base_url, kind == "pool"
