"""Language models and tunables together: a bandit shares out a round's places by what each gained for its cost."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from forewarp.core.errors import ModelError
from forewarp.core.protocols import Attempt, Known, Proposal
from forewarp.core.values import Target, Task
from forewarp.search import bandit
from forewarp.search.bandit import Pull
from forewarp.search.proposers import operators
from forewarp.search.proposers.llm import KernelWriter
from forewarp.search.proposers.operators import Directive
from forewarp.search.proposers.past import Past
from forewarp.search.proposers.tunables import TunablesProposer

MAX_CALLS = 4

_WRITE, _TUNE = "write", "tune"
_ALIKE = 1.0
"""Cost of handling any candidate, relative to a model's call, where writing is weighed against tuning.

A written program costs a compile, a forecast and its share of the measurements like a tuned one. Were that counted as a
tenth, as among models, choosing tunables, which is free, would crowd out writing long before it stops gaining.
"""


class Portfolio:
    """Fills a round: at most `max_calls` programs by models, tunables for the rest.

    A bandit gives each of these places to writing or tuning, all to writing in the first round, and to a model. Raises
    `ModelError` only if no model gave any answer.
    """

    def __init__(
        self,
        writers: Sequence[KernelWriter],
        tunables: TunablesProposer,
        *,
        max_calls: int = MAX_CALLS,
    ) -> None:
        self.name = "+".join(p.name for p in (*writers, tunables))
        self._writers = {w.name: w for w in writers}
        self._tunables, self._max_calls = tunables, max_calls
        self._silent: Counter[str] = Counter()
        """Calls of this process that gave no candidate, which leave no trace in the record."""

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        calls = min(self._max_calls, count)
        written = self._written(Past(task, target, known), calls, rng) if self._writers and calls > 0 else []
        made: dict[str, Proposal] = {}
        for proposal in written:
            if proposal.candidate.sha256 not in known.seen:
                made.setdefault(proposal.candidate.sha256, proposal)
        rest = replace(known, seen=known.seen | made.keys())
        return [*made.values(), *self._tunables.propose(task, target, rest, count - len(made), rng)]

    def _written(self, past: Past, calls: int, rng: random.Random) -> list[Proposal]:
        models = self._assign(past, calls, rng)
        directives = operators.plan(past, len(models), rng) if models else []
        work: dict[str, list[Directive]] = {}
        for model, directive in zip(models, directives, strict=True):
            work.setdefault(model, []).append(directive)
        if not work:
            return []
        with ThreadPoolExecutor(len(work)) as pool:
            waiting = {m: pool.submit(self._writers[m].write, past, asked) for m, asked in work.items()}
        made: list[Proposal] = []
        errors: list[ModelError] = []
        for model, future in waiting.items():
            try:
                found = future.result()
            except ModelError as e:
                errors.append(e)
                continue
            self._silent[model] += len(work[model]) - len(found)
            made += found
        if errors and len(errors) == len(work):
            raise errors[0]
        return made

    def _assign(self, past: Past, calls: int, rng: random.Random) -> list[str]:
        kinds = [_WRITE] * calls
        if any(self._kind(a) == _WRITE for a in past.attempts):
            kinds = bandit.choose([_WRITE, _TUNE], self._pulls(past, by_model=False), calls, rng, handling=_ALIKE)
        return bandit.choose(list(self._writers), self._pulls(past, by_model=True), kinds.count(_WRITE), rng)

    def _pulls(self, past: Past, *, by_model: bool) -> list[Pull]:
        def model_of(a: Attempt) -> str:
            return a.proposal.proposer if a.proposal.proposer in self._writers else ""

        pulls = bandit.pulls_of(past.attempts, model_of if by_model else self._kind, past.base)
        costs = [p.cost for p in pulls if p.arm != _TUNE]
        usual = sum(costs) / len(costs) if costs else 0.0
        lost = [Pull(m if by_model else _WRITE, 0.0, usual) for m, n in self._silent.items() for _ in range(n)]
        return lost + pulls

    def _kind(self, attempt: Attempt) -> str:
        if attempt.proposal.proposer in self._writers:
            return _WRITE
        tuned = attempt.proposal.proposer == self._tunables.name and attempt.proposal.operator != "seed"
        return _TUNE if tuned else ""
