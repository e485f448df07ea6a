"""View of a run for proposers that write programs: lineage, failures worth repairing, gains of changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from forewarp.core.protocols import Attempt, Known, Proposal
from forewarp.core.values import DEVICE_ONLY, Candidate, Language, Target, Task
from forewarp.inspection.features.features import program_of
from forewarp.search import puct
from forewarp.search.gate import program_key
from forewarp.search.proposers.tunables import RUNS_ON, with_defaults

REPAIRS = 3
"""Repairs that one broken program is worth; then it is left alone (the debugging trap of GEAK, arXiv 2507.23194)."""

REPAIR = "repair"


@dataclass(frozen=True, slots=True)
class Broken:
    """A failed program, with the number of repairs that its line has had."""

    attempt: Attempt
    repairs: int


class Past:
    """A view of `Known`; everything in it is a pure function of what the run recorded."""

    def __init__(self, task: Task, target: Target, known: Known) -> None:
        self.task, self.target, self.known, self.seen = task, target, known, known.seen
        self.attempts = puct.attempts_of(known)
        self.languages = languages_for(task, target)
        seeds = [s for s in task.seeds if s.language in self.languages]
        self.tree = puct.Tree(self.attempts, [with_defaults(s) for s in seeds], by_source=True)

    @cached_property
    def parents(self) -> list[puct.Node]:
        """Programs that an operator may begin from, in a language that may be written: measured ones and seeds."""
        return [n for n in self.tree.nodes if n.candidate.language in self.languages]

    @cached_property
    def working(self) -> list[puct.Node]:
        """The parents that were measured, the fastest first."""
        return [n for n in self.parents if n.value is not None]

    def attempt(self, node: puct.Node) -> Attempt:
        """Return the attempt behind a node; a seed that was not tried yet is one that is still to come."""
        return self.identified.get(node.identity) or Attempt(Proposal(node.candidate, "", operator="seed"))

    @cached_property
    def identified(self) -> dict[str, Attempt]:
        """Attempts that were measured or failed to compile, by identity; of the rest nothing is learned."""
        told = (a for a in self.attempts if a.measurement is not None or a.outcome == "compile_error")
        return {a.proposal.candidate.sha256: a for a in told}

    @cached_property
    def broken(self) -> list[Broken]:
        """Programs to repair, the least repaired and latest first: never right, not repaired, of no abandoned line."""
        fine = {source_of(a) for a in self.identified.values() if works(a)}
        mended = {a.proposal.parent for a in self.attempts if a.proposal.operator == REPAIR}
        repairs = Counter(self._root(a.proposal.parent) for a in self.attempts if a.proposal.operator == REPAIR)
        latest = {source_of(a): (identity, a) for identity, a in self.identified.items() if _fails(a)}
        broken = [
            Broken(a, repairs[self._root(identity)])
            for identity, a in reversed(latest.values())
            if source_of(a) not in fine and identity not in mended and a.proposal.candidate.language in self.languages
        ]
        return sorted((b for b in broken if b.repairs < REPAIRS), key=lambda b: b.repairs)

    def base(self, attempt: Attempt) -> float | None:
        """Return the speed-up that an attempt began from, the better of two, or None where nothing above works."""
        p = attempt.proposal
        speedups = [self._speedup(key) for key in (p.parent, p.mate) if key]
        return max((s for s in speedups if s is not None), default=None)

    def twin(self, candidate: Candidate) -> Attempt | None:
        """Return the attempt that the gate would call the same program, or None."""
        program, key = program_of(candidate), ""
        for a in self.attempts:
            other = a.proposal.candidate
            if other.tunables == candidate.tunables and program_of(other) == program:
                key = key or program_key(candidate)
                if program_key(other) == key:
                    return a
        return None

    def _speedup(self, identity: str) -> float | None:
        walked: set[str] = set()
        while (a := self.identified.get(identity)) is not None and identity not in walked:
            if works(a) and a.measurement is not None:
                return a.measurement.speedup
            walked.add(identity)
            identity = a.proposal.parent
        return None

    def _root(self, identity: str) -> str:
        """Return the broken program that a line of repairs began with; the identity itself where it is no repair."""
        walked = {identity}
        while (a := self.identified.get(identity)) is not None and a.proposal.operator == REPAIR:
            above = a.proposal.parent
            if not above or above in walked:
                break
            walked.add(above)
            identity = above
        return identity


def languages_for(task: Task, target: Target) -> tuple[Language, ...]:
    """Return the device-only languages to write in: those of the seeds that run on the target, else all that do."""
    able = RUNS_ON[target.kind]
    used = {s.language for s in task.seeds if s.language in DEVICE_ONLY}
    return tuple(language for language in able if language in used) or able


def works(a: Attempt) -> bool:
    return a.measurement is not None and a.measurement.believed is not None


def _fails(a: Attempt) -> bool:
    return a.outcome == "compile_error" or (a.measurement is not None and a.measurement.status != "ok")


def source_of(a: Attempt) -> tuple[str, str]:
    """Return an attempt's language and text, which all choices of its tunables share."""
    return a.proposal.candidate.language, a.proposal.candidate.source
