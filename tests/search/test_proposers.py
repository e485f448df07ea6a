from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from contracts.proposer_contract import ProposerContract
from support.synthetic_executor import BEST, SOURCE, TARGET, SyntheticExecutor, log2_speedup, seed, task

from forewarp.core.protocols import Known, Proposer, Subject, Trial
from forewarp.core.values import Candidate, Target, Task
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.formats import task as tasks
from forewarp.search.proposers.advice import seeds_on
from forewarp.search.proposers.recorded import PoolProposer
from forewarp.search.proposers.tunables import TunablesProposer


def trial(candidate: Candidate) -> Trial:
    executor = SyntheticExecutor()
    build = executor.compile(task(), candidate)
    return Trial(Subject(candidate, build), executor.measure(task(), candidate, build))


class Fixtures(ProposerContract):
    @pytest.fixture
    def task(self) -> Task:
        return task()

    @pytest.fixture
    def target(self) -> Target:
        return TARGET

    @pytest.fixture
    def history(self) -> list[Trial]:
        return [trial(seed(UNROLL=u, WIDTH=8)) for u in (1, 4, 16)]


class TestTunablesProposer(Fixtures):
    @pytest.fixture
    def make(self) -> Callable[[], Proposer]:
        return TunablesProposer


class TestPoolProposer(Fixtures):
    @pytest.fixture
    def make(self) -> Callable[[], Proposer]:
        return lambda: PoolProposer([seed(UNROLL=u, WIDTH=w) for u in (1, 2, 4, 8) for w in (1, 2, 4, 4)])


def propose(of: Task, history: list[Trial], seen: set[str], count: int, number: int = 0, target: Target = TARGET):
    return TunablesProposer().propose(
        of, target, Known(trials=history, seen=frozenset(seen)), count, random.Random(number)
    )


def test_defaults_of_every_seed_come_first() -> None:
    other = seed(SOURCE.replace("[64, 16", "[32, 16"))
    made = propose(task(seed(), other), [], set(), 5)
    assert [p.candidate for p in made[:2]] == [seed(), other]
    assert [p.operator for p in made] == ["seed", "seed", "random", "random", "random"]


def test_seeds_of_another_kind_of_device_are_left_out() -> None:
    cuda = Candidate(SOURCE, "cuda")
    assert {p.candidate.language for p in propose(task(seed(), cuda), [], set(), 9)} == {"cpp"}
    gpu = Target("gpu", "cuda", "sm_90", 132)
    assert {p.candidate.language for p in propose(task(seed(), cuda), [], set(), 9, target=gpu)} == {"cuda"}


def test_on_hopper_a_cards_kernel_takes_the_place_of_the_seed_that_it_can_stand_for() -> None:
    product = tasks.load("matmul")
    on_hopper = seeds_on(product, known_targets()["h100"])
    assert [s.language for s in on_hopper] == [s.language for s in product.seeds]
    assert [s for s in on_hopper if "wgmma" in s.source] == [s for s in on_hopper if s not in product.seeds]
    assert sum(s not in product.seeds for s in on_hopper) == 1
    assert seeds_on(product, known_targets()["a100"]) == product.seeds
    other = tasks.load("cross_entropy")  # the card's kernel for it returns a gradient, too
    assert seeds_on(other, known_targets()["h100"]) == other.seeds


def test_a_seed_without_a_plan_is_proposed_as_it_is() -> None:
    module = Candidate("class ModelNew: ...", "python")
    broken = Candidate("int main;", "cpp")
    made = propose(task(module, broken), [], set(), 5)
    assert [p.candidate for p in made] == [module, broken]


def test_every_choice_of_a_small_space_is_found_and_then_none() -> None:
    small = seed(SOURCE.replace("[64, 16, 32, 128, 256, 512]", "[512, 64]"))
    allowed = {Candidate(small.source, "cpp", t).sha256 for t in plans.parse(small).combinations()}
    seen: set[str] = set()
    for number in range(20):
        seen |= {p.candidate.sha256 for p in propose(task(small), [], seen, 16, number)}
    assert seen == allowed
    assert propose(task(small), [], seen, 16) == []


def test_half_of_the_proposals_are_near_what_works() -> None:
    good = trial(seed(**BEST))
    bad = trial(seed(TILE=16, UNROLL=16, WIDTH=8))
    assert bad.measurement.status == "incorrect"
    made = [p for number in range(10) for p in propose(task(), [bad, good], {seed().sha256}, 12, number)]
    near = [p for p in made if p.operator == "neighbour"]
    assert 0.3 < len(near) / len(made) < 0.8
    assert {p.parent for p in near} == {good.subject.candidate.sha256}
    for p in near:
        changed = [
            name for name, value in p.candidate.tunables.items() if value != good.subject.candidate.tunables[name]
        ]
        assert 1 <= len(changed) <= 2
    mean = sum(log2_speedup(p.candidate) for p in near) / len(near)
    others = [p for p in made if p.operator == "random"]
    assert mean > sum(log2_speedup(p.candidate) for p in others) / len(others)


def test_crosses_take_each_tunable_from_a_parent() -> None:
    a, b = seed(TILE=16, UNROLL=1, WIDTH=1, UNUSED=0), seed(TILE=256, UNROLL=8, WIDTH=4, UNUSED=1)
    made = [p for n in range(10) for p in propose(task(), [trial(a), trial(b)], set(), 12, n) if p.operator == "cross"]
    assert made
    for p in made:
        assert all(v in (a.tunables[name], b.tunables[name]) for name, v in p.candidate.tunables.items())


def test_a_source_from_elsewhere_is_varied_once_it_works() -> None:
    written = seed(SOURCE.replace("go", "written_by_a_model"))
    made = propose(task(), [trial(written)], {seed().sha256, written.sha256}, 24)
    assert sum(p.candidate.source == written.source for p in made) >= 6


def test_tunables_outside_of_the_declared_choices_have_neighbours() -> None:
    odd = Candidate(SOURCE, "cpp", {"TILE": 48})
    made = propose(task(), [trial(odd)], {seed().sha256}, 24)
    assert all(set(p.candidate.tunables) == set(seed().tunables) for p in made)


def test_a_pool_is_proposed_once_and_whole() -> None:
    kernels = [seed(UNROLL=u) for u in (1, 2, 4, 8)]
    proposer, seen = PoolProposer(kernels), set[str]()
    for number in range(3):
        seen |= {
            p.candidate.sha256
            for p in proposer.propose(task(), TARGET, Known(seen=frozenset(seen)), 3, random.Random(number))
        }
    assert seen == {k.sha256 for k in kernels}
