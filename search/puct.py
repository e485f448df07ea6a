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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from forewarp.core.protocols import Attempt, Known, Proposal
from forewarp.core.values import Build, Candidate, Measurement

EXPLORATION = 1.0


@dataclass(frozen=True, slots=True)
class Node:
    """A program to go on from: `identity` and the rest are those of its fastest member.

    `value` and `best` are log2 speed-ups: its own, None for a seed that has none, and the highest of it and its
    descendants. `expansions` counts its own and those of its descendants.
    """

    identity: str
    candidate: Candidate
    build: Build | None
    measurement: Measurement | None
    value: float | None
    best: float | None
    expansions: int


@dataclass(slots=True)
class _Spot:
    """A node being built. `born` is the position of its first attempt, −1 for seeds.

    `above` are the places of its parents; what expands the node counts for the line of the first one.
    """

    identity: str
    candidate: Candidate
    born: int
    build: Build | None = None
    measurement: Measurement | None = None
    value: float | None = None
    best: float | None = None
    expansions: int = 0
    seed: bool = False
    above: list[int] = field(default_factory=list[int])


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

        Choosing tunables is no expansion of that node then. An attempt that crosses two counts for its first parent's
        line and for its mate; what is grown from it later counts for the first parent's line only.
        """
        self._by_source = by_source
        self._spots: list[_Spot] = []
        self._of: dict[str, int] = {}
        self._sources: dict[tuple[str, str], int] = {}
        for seed in seeds:
            self._spots[self._place(seed.sha256, seed, -1)].seed = True
        places = self._place_measured(attempts)
        places |= self._place_parents(attempts, places)
        self._total = self._link(attempts, places)
        self._climb()
        order = [i for i, s in enumerate(self._spots) if s.value is not None or s.seed]
        self._lowest = min((s.value for s in self._spots if s.value is not None), default=0.0)
        order.sort(key=lambda i: (-self._value(i), self._spots[i].identity))
        self._nodes = {i: _node(self._spots[i]) for i in order}
        self.nodes = tuple(self._nodes.values())

    def choose(
        self,
        count: int,
        *,
        among: Callable[[Node], bool] = lambda _: True,
        avoid: Iterable[str] = (),
        exploration: float = EXPLORATION,
        blocking: bool = True,
    ) -> list[Node]:
        """Return `count` nodes, the highest score first; none only where no node qualifies.

        Each choice counts as an expansion for those after it. With `blocking` no two are ancestor and descendant, nor
        of the line of an identity in `avoid`, for as long as there are others; after that only the scores decide.
        """
        places = [i for i, node in self._nodes.items() if among(node)]
        gains, priors = self._gains(), self._priors()
        expansions = {i: self._spots[i].expansions for i in range(len(self._spots))} if places else {}
        blocked: set[int] = set()
        for identity in avoid if blocking else ():
            blocked |= self._line(self._of[identity]) if identity in self._of else set()
        chosen: list[int] = []
        while places and len(chosen) < count:
            factor = exploration * math.sqrt(1 + self._total + len(chosen))
            free = [i for i in places if i not in blocked] or places
            # `max` takes the first of equals, and places are in the order of nodes.
            best = max(free, key=lambda i: gains[i] + factor * priors[i] / (1 + expansions[i]))
            chosen.append(best)
            for i in self._first_line(best):
                expansions[i] += 1
            if blocking:
                blocked |= self._line(best)
        return [self._nodes[i] for i in chosen]

    def related(self, one: str, other: str) -> bool:
        """Return whether two identities are of one node, or one descends from the other."""
        if one not in self._of or other not in self._of:
            return one == other
        return self._of[other] in self._line(self._of[one])

    def node(self, identity: str) -> Node | None:
        """Return the node that holds an identity, None where it is none."""
        place = self._of.get(identity)
        return None if place is None else self._nodes.get(place)

    def _place(self, identity: str, candidate: Candidate, born: int) -> int:
        found = self._of.get(identity)
        if found is None and self._by_source:
            found = self._sources.get((candidate.language, candidate.source))
        if found is None:
            found = len(self._spots)
            self._spots.append(_Spot(identity, candidate, born))
            if self._by_source:
                self._sources[candidate.language, candidate.source] = found
        self._of[identity] = found
        self._spots[found].born = min(self._spots[found].born, born)
        return found

    def _place_measured(self, attempts: Sequence[Attempt]) -> dict[int, int]:
        """Add every measured attempt to its node; return the node's place by the attempt's position."""
        places: dict[int, int] = {}
        for position, attempt in enumerate(attempts):
            m = attempt.measurement
            if m is None:
                continue
            candidate = attempt.proposal.candidate
            identity = candidate.sha256
            places[position] = self._place(identity, candidate, position)
            spot = self._spots[places[position]]
            value = math.log2(m.speedup) if m.trusted and m.speedup else None
            if value is not None and (spot.value is None or value > spot.value):
                spot.identity, spot.candidate, spot.value = identity, candidate, value
                spot.build, spot.measurement = attempt.build, m
        return places

    def _place_parents(self, attempts: Sequence[Attempt], measured: Mapping[int, int]) -> dict[int, int]:
        """Add nodes for unmeasured programs with children. Identities are hashes: only these few are worked out."""
        above = {a.proposal.parent for a in attempts} | {a.proposal.mate for a in attempts}
        missing = above - self._of.keys() - {""}
        places: dict[int, int] = {}
        if not missing:
            return places
        rest = (i for i in range(len(attempts)) if i not in measured)
        for position in sorted(rest, key=lambda i: attempts[i].outcome == "passed"):
            identity = attempts[position].proposal.candidate.sha256
            if identity in missing:
                places[position] = self._place(identity, attempts[position].proposal.candidate, position)
                missing.discard(identity)
                if not missing:
                    break
        return places

    def _link(self, attempts: Sequence[Attempt], places: Mapping[int, int]) -> int:
        """Count each attempt at its parents and tie its node to theirs; return how many expansions there were."""
        total = 0
        for position, attempt in enumerate(attempts):
            p = attempt.proposal
            if not p.parent and not p.mate:
                continue
            for key in (p.parent, p.mate) if p.mate and p.mate != p.parent else (p.parent,):
                above = self._of.get(key)
                if above is None or (self._by_source and self._spots[above].candidate.source == p.candidate.source):
                    continue
                self._spots[above].expansions += 1
                total += 1
                place = places.get(position)
                # A program that was there before its parent does not count as its child: there could be cycles.
                if place is not None and self._spots[above].born < self._spots[place].born:
                    self._spots[place].above.append(above)
        return total

    def _climb(self) -> None:
        """Pass each node's best value and number of expansions up to its parents, the youngest node first."""
        self._children: list[list[int]] = [[] for _ in self._spots]
        for i in sorted(range(len(self._spots)), key=lambda i: -self._spots[i].born):
            spot = self._spots[i]
            spot.best = max((v for v in (spot.value, spot.best) if v is not None), default=None)
            for above in spot.above:
                self._children[above].append(i)
                parent = self._spots[above]
                parent.best = max((v for v in (parent.best, spot.best) if v is not None), default=None)
            if spot.above:
                self._spots[spot.above[0]].expansions += spot.expansions

    def _value(self, place: int) -> float:
        """Return a node's own log2 speed-up, the archive's lowest where a seed has none."""
        value = self._spots[place].value
        return self._lowest if value is None else value

    def _gains(self) -> dict[int, float]:
        highest = max((s.value for s in self._spots if s.value is not None), default=0.0)
        spread = max(highest - self._lowest, 1e-6)
        found = {i: self._spots[i].best for i in self._nodes}
        return {i: ((self._lowest if q is None else q) - self._lowest) / spread for i, q in found.items()}

    def _priors(self) -> dict[int, float]:
        count = len(self._nodes)
        whole = count * (count + 1) / 2
        return {i: (count - rank) / whole for rank, i in enumerate(self._nodes)}

    def _first_line(self, place: int) -> list[int]:
        line = [place]
        while self._spots[line[-1]].above:
            line.append(self._spots[line[-1]].above[0])
        return line

    def _line(self, place: int) -> set[int]:
        """Return a place with all its ancestors and descendants."""
        return _reach(place, lambda i: self._spots[i].above) | _reach(place, lambda i: self._children[i])


def _reach(start: int, step: Callable[[int], Iterable[int]]) -> set[int]:
    reached, waiting = {start}, [start]
    while waiting:
        for i in step(waiting.pop()):
            if i not in reached:
                reached.add(i)
                waiting.append(i)
    return reached


def _node(s: _Spot) -> Node:
    return Node(s.identity, s.candidate, s.build, s.measurement, s.value, s.best, s.expansions)
