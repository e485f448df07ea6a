"""Candidates from the tunables that kernels and modules declare in their plans; needs no model."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from forewarp.core.errors import CandidateError
from forewarp.core.protocols import Known, Proposal
from forewarp.core.values import Candidate, DeviceKind, Language, Target, Task
from forewarp.gpu_runner.formats import plan as plans
from forewarp.search import puct

GOOD = 5
"""Number of the best measured candidates from which sources to vary and mates to cross with are taken."""
_TRIES = 20
_ENUMERATED = 50_000
RUNS_ON: dict[DeviceKind, tuple[Language, ...]] = {"cpu": ("cpp",), "cuda": ("triton", "cuda")}
"""Languages of kernels by the kind of device; Python modules run on all."""


@dataclass(frozen=True, slots=True)
class _Space:
    """A source with its plan: all choices of its tunables."""

    source: str
    language: Language
    plan: plans.LaunchPlan

    def at(self, tunables: Mapping[str, int]) -> Candidate:
        chosen = self.plan.defaults() | dict(tunables)
        return Candidate(self.source, self.language, {name: chosen[name] for name in self.plan.tunables})


class ChoiceForecaster(Protocol):
    """Orders the choices of a kernel's tunables before anything of them is compiled."""

    def fastest_first(
        self, task: Task, candidate: Candidate, measured: Sequence[tuple[Mapping[str, int], float]]
    ) -> Sequence[Mapping[str, int]]:
        """Return choices, none of those measured (with log2 of times), the fastest first, or none."""
        ...


class TunablesProposer:
    """Proposes the seeds' defaults first, then new choices, neighbours of what works, and crosses of two.

    New choices are those forecast fastest, else random ones; what neighbours and crosses begin from is chosen by PUCT.
    Sources of other proposers are varied once they work.
    """

    name = "tunables"

    def __init__(self, forecaster: ChoiceForecaster | None = None) -> None:
        self._forecaster = forecaster

    def propose(self, task: Task, target: Target, known: Known, count: int, rng: random.Random) -> list[Proposal]:
        """Return up to `count` new candidates; none when every choice of every source was seen."""
        made: dict[str, Proposal] = {}

        def add(candidate: Candidate, operator: str, parent: str = "", mate: str = "") -> bool:
            if len(made) >= count or candidate.sha256 in made or candidate.sha256 in known.seen:
                return False
            made[candidate.sha256] = Proposal(candidate, self.name, parent, mate=mate, operator=operator)
            return True

        seeds = [s for s in task.seeds if s.language in (*RUNS_ON[target.kind], "python")]
        for seed in seeds:
            add(with_defaults(seed), "seed")
        if len(made) >= count:
            return list(made.values())
        tree = puct.Tree(puct.attempts_of(known), [with_defaults(s) for s in seeds])
        worked = [node for node in tree.nodes if node.value is not None]
        good = [node.candidate for node in worked[:GOOD]]
        spaces = _spaces([*seeds, *good])
        able = {n for n in worked if (n.candidate.language, n.candidate.source) in spaces}
        near = [n.candidate for n in tree.choose(count, among=lambda node: node in able, blocking=False)]
        ordered = {key: self._ordered(task, space, known) for key, space in spaces.items()}
        misses = 0
        while spaces and len(made) < count and misses < _TRIES * count:
            idea = _idea(spaces, ordered, near, good, rng)
            misses += not (idea is not None and add(*idea))
        if len(made) < count:
            # Of small spaces random tries mostly hit what was seen: what is left of them is looked up.
            left = [s.at(t) for s in spaces.values() for t in itertools.islice(s.plan.combinations(), _ENUMERATED)]
            rng.shuffle(left)
            for candidate in left:
                add(candidate, "remaining")
        return list(made.values())

    def _ordered(self, task: Task, space: _Space, known: Known) -> Iterator[Candidate]:
        """Give candidates of a source that were not seen, the fastest by forecast first, if it can be forecast."""
        if self._forecaster is None:
            return
        measured = [
            (space.plan.defaults() | dict(c.tunables), -math.log2(t.measurement.believed))
            for t in known.trials
            if (c := t.subject.candidate).source == space.source and t.measurement.believed
        ]
        for chosen in self._forecaster.fastest_first(task, space.at({}), measured):
            if (candidate := space.at(chosen)).sha256 not in known.seen:
                yield candidate


def _idea(
    spaces: Mapping[tuple[str, str], _Space],
    ordered: Mapping[tuple[str, str], Iterator[Candidate]],
    near: Sequence[Candidate],
    good: Sequence[Candidate],
    rng: random.Random,
) -> tuple[Candidate, str, str, str] | None:
    """Return a candidate with operator and parents, two of five new, else near what works; None if ruled out."""
    way = rng.random()
    if not near or way >= 0.6:
        key, space = rng.choice(list(spaces.items()))
        if (candidate := next(ordered[key], None)) is not None:
            return candidate, "forecast", "", ""
        tunables = _random(space.plan, rng)
        return None if tunables is None else (space.at(tunables), "random", "", "")
    parent = rng.choice(near)
    space = spaces[parent.language, parent.source]
    mates = [c for c in good if c.source == parent.source and c.sha256 != parent.sha256]
    if way < 0.2 and mates:
        mate = rng.choice(mates)
        tunables = {name: rng.choice((v, mate.tunables.get(name, v))) for name, v in parent.tunables.items()}
        operator, other = "cross", mate.sha256
    else:
        tunables, operator, other = _neighbour(space.plan, parent.tunables, rng), "neighbour", ""
    return (space.at(tunables), operator, parent.sha256, other) if space.plan.allows(tunables) else None


def _random(plan: plans.LaunchPlan, rng: random.Random) -> dict[str, int] | None:
    """Return a uniformly random choice that the constraints allow; None if they rule out nearly all."""
    for _ in range(_TRIES):
        tunables = {name: rng.choice(choices) for name, choices in plan.tunables.items()}
        if plan.allows(tunables):
            return tunables
    return None


def _neighbour(plan: plans.LaunchPlan, tunables: Mapping[str, int], rng: random.Random) -> dict[str, int]:
    """Move one or two tunables one step up or down in the order of their values."""
    moved = plan.defaults() | dict(tunables)
    movable = [name for name, choices in plan.tunables.items() if len(choices) > 1]
    for name in rng.sample(movable, min(len(movable), rng.choice((1, 1, 2)))):
        ordered = sorted({*plan.tunables[name], moved[name]})
        place = ordered.index(moved[name])
        moved[name] = rng.choice(ordered[max(place - 1, 0) : place] + ordered[place + 1 : place + 2])
    return moved


def _spaces(candidates: Sequence[Candidate]) -> dict[tuple[str, str], _Space]:
    """Return the distinct sources that declare tunables; one whose plan is malformed has none to vary."""
    spaces: dict[tuple[str, str], _Space] = {}
    for c in candidates:
        plan = _plan(c)
        if plan is not None and plan.tunables:
            spaces.setdefault((c.language, c.source), _Space(c.source, c.language, plan))
    return spaces


def _plan(candidate: Candidate) -> plans.LaunchPlan | None:
    try:
        return plans.parse(candidate)
    except CandidateError:
        return None


def with_defaults(seed: Candidate) -> Candidate:
    plan = _plan(seed)
    return Candidate(seed.source, seed.language, plan.defaults() | dict(seed.tunables)) if plan else seed
