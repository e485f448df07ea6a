"""What every `Proposer` must do. A subclass gives the fixtures."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from forewarp.core.protocols import Known, Proposer, Trial
from forewarp.core.values import Target, Task


class ProposerContract:
    repeats = True
    """Whether the same random numbers give the same proposals; not so for a model that samples."""

    @pytest.fixture
    def make(self) -> Callable[[], Proposer]:
        """Return a function that makes a fresh proposer."""
        raise NotImplementedError

    @pytest.fixture
    def task(self) -> Task:
        raise NotImplementedError

    @pytest.fixture
    def target(self) -> Target:
        raise NotImplementedError

    @pytest.fixture
    def history(self) -> list[Trial]:
        """A few trials, good and failed ones."""
        raise NotImplementedError

    def test_it_is_a_proposer(self, make: Callable[[], Proposer]) -> None:
        assert isinstance(make(), Proposer)
        assert make().name

    def test_gives_no_more_than_asked_and_none_twice(
        self, make: Callable[[], Proposer], task: Task, target: Target, history: list[Trial]
    ) -> None:
        proposer, seen = make(), set[str]()
        for number in range(4):
            made = proposer.propose(task, target, Known(trials=history, seen=frozenset(seen)), 5, random.Random(number))
            assert len(made) <= 5
            kernels = [p.candidate.sha256 for p in made]
            assert len(set(kernels)) == len(kernels)
            assert not seen & set(kernels)
            seen |= set(kernels)
        assert seen

    def test_works_without_history(self, make: Callable[[], Proposer], task: Task, target: Target) -> None:
        made = make().propose(task, target, Known(), 3, random.Random(0))
        assert 0 < len(made) <= 3

    def test_names_itself(self, make: Callable[[], Proposer], task: Task, target: Target) -> None:
        proposer = make()
        made = proposer.propose(task, target, Known(), 3, random.Random(0))
        assert {p.proposer for p in made} == {proposer.name}

    def test_same_numbers_same_proposals(
        self, make: Callable[[], Proposer], task: Task, target: Target, history: list[Trial]
    ) -> None:
        if not self.repeats:
            pytest.skip("this proposer samples")
        one, two = (make().propose(task, target, Known(trials=history), 6, random.Random(7)) for _ in range(2))
        assert one == two

    def test_remembers_nothing_of_its_own(
        self, make: Callable[[], Proposer], task: Task, target: Target, history: list[Trial]
    ) -> None:
        if not self.repeats:
            pytest.skip("this proposer samples")
        known, used = Known(trials=history), make()
        used.propose(task, target, known, 6, random.Random(1))
        fresh = make().propose(task, target, known, 6, random.Random(7))
        assert used.propose(task, target, known, 6, random.Random(7)) == fresh

    def test_asking_for_nothing_gives_nothing(self, make: Callable[[], Proposer], task: Task, target: Target) -> None:
        assert make().propose(task, target, Known(), 0, random.Random(0)) == []
