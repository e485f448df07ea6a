"""Candidates that were measured before: those of a recorded pool, and the best kernels of earlier runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from forewarp.core.protocols import Known, Proposal
from forewarp.core.values import Candidate, Measurement, Target, Task

OFFERED = 4
"""Programs of earlier runs that are offered at most."""


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


@dataclass(frozen=True, slots=True)
class Archived:
    """A kernel that was measured on this target: for which task and family, and whether that is the task at hand."""

    task: str
    family: str
    candidate: Candidate
    measurement: Measurement
    same_task: bool


class ArchivedProposer:
    """Proposes the best programs that other runs measured for this very task and target, each once.

    What they reached there is not taken for granted: they are forecast and measured again like any other candidate.
    """

    name = "archived"

    def __init__(self, kernels: Sequence[Archived]) -> None:
        """`kernels` may be of any task; those of other tasks serve as `inspiration` only."""
        self._own = _best([k for k in kernels if k.same_task])[:OFFERED]
        self._others = _best([k for k in kernels if not k.same_task])

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        """Return up to `count` of them that the run has not seen, the fastest first."""
        note = "S = {:.3g} in an earlier run"
        return [
            Proposal(k.candidate, self.name, note=note.format(k.measurement.speedup or 0.0), operator="archived")
            for k in self._own
            if k.candidate.sha256 not in known.seen
        ][:count]

    def inspiration(self, task: Task, languages: Sequence[str]) -> Archived | None:
        """Return the fastest kernel of another task of the same family, in a language that may be written; or None.

        Kernels of other families come second: whoever chose them thought them similar.
        """
        able = [k for k in self._others if k.candidate.language in languages]
        return next((k for k in able if task.family and k.family == task.family), able[0] if able else None)


def _best(kernels: Sequence[Archived]) -> list[Archived]:
    """Return the fastest trusted setting of each program, the fastest first."""
    working = [k for k in kernels if k.measurement.trusted and k.measurement.speedup]
    working.sort(key=lambda k: (-(k.measurement.speedup or 0.0), k.candidate.sha256))
    programs: dict[tuple[str, str], Archived] = {}
    for kernel in working:
        programs.setdefault((kernel.candidate.language, kernel.candidate.source), kernel)
    return list(programs.values())
