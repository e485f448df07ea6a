"""Choice of the measured programs to continue from: PUCT over the archive of a run, with lineage blocking in a batch.

The rule is that of TTT-Discover (arXiv 2601.16175), which maximises where tree search averages, and which blocks
ancestors and descendants of what a batch holds already; PUCT itself is from Silver et al., "Mastering the game of Go
without human knowledge" (Nature 550, 2017), after Rosin (2011):

    score = Q + c · P · √(1 + T) / (1 + n)

    Q   highest log2 speed-up of the node and its descendants, 0 for the archive's lowest and 1 for its highest
    P   (N − rank) / Σ (N − rank) over the N nodes, rank 0 the fastest itself
    n   expansions of the node and of its descendants
    T   expansions of all nodes

Nodes are what was measured and may be trusted, and the seeds, measured or not. A candidate that was only forecast is
no node: the policy measures within a round or two what is forecast to be fast, a parent without a measurement has
nothing to teach, and the highest of many forecasts is mostly the one that errs highest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from forewarp.core.protocols import Attempt, Known, Proposal
from forewarp.core.values import Build, Candidate, Measurement

EXPLORATION = 1.0


@dataclass(slots=True, eq=False)
class Node:
    """A program to go on from, as its fastest member is, born with its first attempt, −1 for seeds.

    `value` and `best` are log2 speed-ups: its own, None for a seed without, and the highest of it and its descendants,
    whose `expansions` it counts, too; each counts for the line of the first of its `parents`.
    """

    identity: str
    candidate: Candidate
    born: int
    build: Build | None = None
    measurement: Measurement | None = None
    value: float | None = None
    best: float | None = None
    expansions: int = 0
    parents: list[Node] = field(default_factory=list["Node"], repr=False)
    children: list[Node] = field(default_factory=list["Node"], repr=False)


def attempts_of(known: Known) -> Sequence[Attempt]:
    """Return the kernels that only other runs measured, which have no parents, followed by the run's attempts."""
    if len(known.trials) <= sum(a.measurement is not None for a in known.attempts):
        return known.attempts
    own = {a.proposal.candidate.sha256 for a in known.attempts if a.measurement is not None}
    foreign = {
        identity: Attempt(Proposal(t.subject.candidate, ""), "passed", "", t.subject.build, None, t.measurement)
        for t in known.trials
        if (identity := t.subject.candidate.sha256) not in own
    }
    return [*foreign.values(), *known.attempts]


class Tree:
    """The lineage of a run's programs. `nodes` are in order: the fastest first, then by identity."""

    def __init__(
        self, attempts: Sequence[Attempt], seeds: Iterable[Candidate] = (), *, by_source: bool = False
    ) -> None:
        """Build the tree; with `by_source` all choices of one source's tunables are one node.

        A cross counts for its first parent's line and for its mate, what is grown from it for the first parent's only.
        """
        self._by_source = by_source
        self._all: list[Node] = []
        self._of: dict[str, Node] = {}
        self._sources: dict[tuple[str, str], Node] = {}
        for seed in seeds:
            self._place(seed, -1)
        self._total = self._link(attempts)
        self._climb()
        values = [n.value for n in self._all if n.value is not None] or [0.0]
        self._lowest = min(values)
        self._spread = max(max(values) - self._lowest, 1e-6)
        able = [n for n in self._all if n.value is not None or n.born < 0]
        self.nodes = tuple(sorted(able, key=lambda n: (-self._octaves(n.value), n.identity)))

    def choose(
        self, count: int, *, among: Callable[[Node], bool] = lambda _: True, blocking: bool = True
    ) -> list[Node]:
        """Return `count` nodes, the highest score first, each an expansion for those after it.

        With `blocking` no two are ancestor and descendant, for as long as there are others.
        """
        nodes = [n for n in self.nodes if among(n)]
        whole = len(self.nodes) * (len(self.nodes) + 1) / 2
        priors = {n: (len(self.nodes) - rank) / whole for rank, n in enumerate(self.nodes)}
        gains = {n: (self._octaves(n.best) - self._lowest) / self._spread for n in nodes}
        expansions = {n: n.expansions for n in self._all}
        blocked: set[Node] = set()
        chosen: list[Node] = []
        for made in range(count if nodes else 0):
            factor = EXPLORATION * math.sqrt(1 + self._total + made)
            free = [n for n in nodes if n not in blocked] or nodes
            # `max` takes the first of equals, and nodes are in order.
            best = max(free, key=lambda n: gains[n] + factor * priors[n] / (1 + expansions[n]))
            chosen.append(best)
            above: Node | None = best
            while above is not None:
                expansions[above] += 1
                above = above.parents[0] if above.parents else None
            if blocking:
                blocked |= _line(best)
        return chosen

    def related(self, one: str, other: str) -> bool:
        """Return whether two identities are of one node, or one descends from the other."""
        if one not in self._of or other not in self._of:
            return one == other
        return self._of[other] in _line(self._of[one])

    def _octaves(self, value: float | None) -> float:
        """Return a log2 speed-up, the lowest of all for a seed that has none."""
        return self._lowest if value is None else value

    def _place(self, candidate: Candidate, born: int) -> Node:
        """Return the node that holds a candidate, a new one where there is none."""
        identity, source = candidate.sha256, (candidate.language, candidate.source)
        node = self._of.get(identity) or (self._sources.get(source) if self._by_source else None)
        if node is None:
            node = Node(identity, candidate, born)
            self._all.append(node)
            self._sources[source] = node
        self._of[identity] = node
        node.born = min(node.born, born)
        return node

    def _place_attempts(self, attempts: Sequence[Attempt]) -> list[Node | None]:
        """Return the node of each attempt that was measured or has children, None for the others."""
        above = {key for a in attempts for key in (a.proposal.parent, a.proposal.mate)}
        placed: list[Node | None] = []
        for position, attempt in enumerate(attempts):
            candidate, m = attempt.proposal.candidate, attempt.measurement
            if m is None:
                is_new_parent = candidate.sha256 in above and candidate.sha256 not in self._of
                placed.append(self._place(candidate, position) if is_new_parent else None)
                continue
            node = self._place(candidate, position)
            placed.append(node)
            value = math.log2(m.believed) if m.believed else None
            if value is not None and (node.value is None or value > node.value):
                node.identity, node.candidate, node.value = candidate.sha256, candidate, value
                node.build, node.measurement = attempt.build, m
        return placed

    def _link(self, attempts: Sequence[Attempt]) -> int:
        """Place attempts, count each at its parents and tie its node to theirs; return the number of expansions."""
        total = 0
        for attempt, node in zip(attempts, self._place_attempts(attempts), strict=True):
            p = attempt.proposal
            for key in dict.fromkeys((p.parent, p.mate)):
                parent = self._of.get(key)
                if parent is None or (self._by_source and parent.candidate.source == p.candidate.source):
                    continue
                parent.expansions += 1
                total += 1
                # A program that was there before its parent does not count as its child: there could be cycles.
                if node is not None and parent.born < node.born:
                    node.parents.append(parent)
                    parent.children.append(node)
        return total

    def _climb(self) -> None:
        """Pass each node's best value and number of expansions up to its parents, the youngest node first."""
        for node in sorted(self._all, key=lambda n: -n.born):
            node.best = max((v for v in (node.value, node.best) if v is not None), default=None)
            for parent in node.parents:
                parent.best = max((v for v in (parent.best, node.best) if v is not None), default=None)
            if node.parents:
                node.parents[0].expansions += node.expansions


def _line(node: Node) -> set[Node]:
    return _reach(node, lambda n: n.parents) | _reach(node, lambda n: n.children)


def _reach(start: Node, step: Callable[[Node], Iterable[Node]]) -> set[Node]:
    reached, waiting = {start}, [start]
    while waiting:
        new = [n for n in step(waiting.pop()) if n not in reached]
        reached.update(new)
        waiting += new
    return reached
