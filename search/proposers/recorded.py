"""Candidates of a recorded pool."""

from __future__ import annotations

import random
from collections.abc import Sequence

from forewarp.core.protocols import Known, Proposal
from forewarp.core.values import Candidate, Target, Task


class PoolProposer:
    """Proposes exactly the given candidates, each once, in random order."""

    name = "pool"

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        """`candidates` come from `Executor.candidates(task)`."""
        self._candidates = tuple({c.sha256: c for c in candidates}.values())

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        """Return `count` of the candidates that are left, drawn at random, regardless of measurements."""
        left = [c for c in self._candidates if c.sha256 not in known.seen]
        return [Proposal(c, self.name) for c in rng.sample(left, min(count, len(left)))]
