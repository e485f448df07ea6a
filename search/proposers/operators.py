"""The kinds of change that a language model is asked for; each one's words are in `prompts/propose_op_NAME.j2`."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Literal

from forewarp.core.protocols import Attempt
from forewarp.search import bandit, puct
from forewarp.search.proposers.past import REPAIR, Broken, Past

_UNEVEN = 1.1
"""Ratio of the best to the worst workload's speed-up above which the imbalance is worth mentioning."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One kind of change. `begins` says what it is given; `edits` whether the answer may be edits of that."""

    name: str
    begins: Literal["nothing", "parent", "two", "broken"]
    edits: bool = True


FIRST = tuple(
    Operator(f"first_{name}", "nothing", edits=False) for name in ("principles", "fusion", "decomposition", "hardware")
)
"""Directions to start in while nothing works yet."""

CROSSOVER = Operator("crossover", "two", edits=False)
MENDING = Operator(REPAIR, "broken")
REWRITE = Operator("rewrite", "parent", edits=False)
WORKLOAD = Operator("workload", "parent")
LATER = (
    *(
        Operator(name, "parent")
        for name in ("tiling", "memory", "fusion", "precision", "pipeline", "launch", "algorithm")
    ),
    WORKLOAD,
    REWRITE,
    CROSSOVER,
    MENDING,
)
"""Kinds of change to a program that works, or might."""


@dataclass(frozen=True, slots=True)
class Directive:
    """One request: an operator with what it begins from, None where that is nothing."""

    operator: Operator
    begin: Attempt | None = None
    other: Attempt | None = None
    repairs: int = 0

    @property
    def parents(self) -> tuple[str, str]:
        """The identities of what it begins from, "" where there is none."""
        parent, mate = (a.proposal.candidate.sha256 if a else "" for a in (self.begin, self.other))
        return parent, mate


def plan(past: Past, count: int, rng: random.Random) -> list[Directive]:
    """Return `count` requests for a round: operators by their gain per cost, parents by PUCT."""
    if not past.working:
        return _first(past, count, rng)
    arms = _eligible(past)
    pulls = bandit.pulls_of(
        past.attempts, lambda a: a.proposal.operator if a.proposal.operator in arms else "", past.base
    )
    names = bandit.choose(list(arms), pulls, count, rng)
    surplus = max(0, names.count(REPAIR) - len(past.broken))
    if surplus:
        rest = [name for name in arms if name != REPAIR]
        names = [n for n in names if n != REPAIR] + [REPAIR] * len(past.broken)
        names += bandit.choose(rest, pulls, surplus, rng)
    repairs = iter(past.broken)
    usable = set(past.parents)
    parents = iter(past.tree.choose(sum(n != REPAIR for n in names), among=lambda node: node in usable))
    return [_repair(next(repairs)) if name == REPAIR else _change(past, arms[name], next(parents)) for name in names]


def _first(past: Past, count: int, rng: random.Random) -> list[Directive]:
    """Return requests while nothing works: repairs for up to half of them, the least used directions for the rest."""
    repairs = [_repair(b) for b in past.broken[: (count + 1) // 2]]
    used = Counter(a.proposal.operator for a in past.attempts)
    order = sorted(rng.sample(FIRST, len(FIRST)), key=lambda o: used[o.name])
    return repairs + [Directive(order[i % len(order)]) for i in range(count - len(repairs))]


def _eligible(past: Past) -> dict[str, Operator]:
    missing: set[str] = set()
    if not past.broken:
        missing.add(REPAIR)
    if not any(_mate(past, node) for node in past.working[:1]):
        missing.add(CROSSOVER.name)
    if not is_uneven(past.attempt(past.working[0])):
        missing.add(WORKLOAD.name)
    return {o.name: o for o in LATER if o.name not in missing}


def is_uneven(attempt: Attempt) -> bool:
    """Return whether an attempt speeds up some workload clearly more than another."""
    speedups = [w.speedup for w in attempt.measurement.workloads] if attempt.measurement else []
    return bool(speedups) and max(speedups) > _UNEVEN * min(speedups)


def _repair(broken: Broken) -> Directive:
    return Directive(MENDING, broken.attempt, repairs=broken.repairs)


def _change(past: Past, operator: Operator, node: puct.Node) -> Directive:
    begin = past.attempt(node)
    if operator is not CROSSOVER:
        return Directive(operator, begin)
    mate = _mate(past, node) if node.value is not None else None
    return Directive(REWRITE, begin) if mate is None else Directive(operator, begin, past.attempt(mate))


def _mate(past: Past, node: puct.Node) -> puct.Node | None:
    """Return a working program of another line than the node's, by the same rule as parents."""
    able = {n for n in past.working if not past.tree.related(n.identity, node.identity)}
    return next(iter(past.tree.choose(1, among=lambda n: n in able)), None)
