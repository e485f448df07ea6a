from __future__ import annotations

import random
from collections import Counter

import pytest

from forewarp.core import bins
from forewarp.core.protocols import Attempt, Proposal
from forewarp.core.values import Build, Candidate, Cost, Forecast, Measurement
from forewarp.search.bandit import FORECAST_WORTH, Pull, choose, pulls_of

ARMS = ["a", "b", "c"]


def play(rewards: dict[str, float], costs: dict[str, float], steps: int = 300, number: int = 0) -> Counter[str]:
    rng, pulls = random.Random(number), list[Pull]()
    for _ in range(steps):
        (arm,) = choose(list(rewards), pulls, 1, rng)
        pulls.append(Pull(arm, rewards[arm] if rng.random() < 0.5 else 0.0, costs[arm]))
    return Counter(p.arm for p in pulls)


def test_every_arm_is_tried_once_first() -> None:
    assert sorted(choose(ARMS, [], 3, random.Random(0))) == ARMS
    assert set(choose(ARMS, [Pull("a", 5.0)], 2, random.Random(0))) == {"b", "c"}


def test_the_better_arm_is_pulled_most_and_the_failing_one_never_stops() -> None:
    found = play({"a": 1.0, "b": 0.2, "c": 0.0}, dict.fromkeys(ARMS, 1.0))
    assert found["a"] > 150
    assert found["a"] > found["b"] >= found["c"] >= 5


def test_of_equal_gains_the_cheaper_is_preferred() -> None:
    found = play({"a": 1.0, "b": 1.0}, {"a": 1.0, "b": 0.1})
    assert found["b"] > 2 * found["a"] >= 6


def test_what_was_good_once_is_left() -> None:
    pulls = [Pull("a", 1.0)] * 50 + [Pull("a", 0.0), Pull("b", 0.5)] * 60
    assert Counter(choose(["a", "b"], pulls, 8, random.Random(1)))["b"] > 4


def test_a_batch_is_spread() -> None:
    pulls = [Pull(arm, 0.1) for arm in ARMS for _ in range(3)]
    assert len(set(choose(ARMS, pulls, 6, random.Random(0)))) == 3


def test_equal_questions_have_equal_answers() -> None:
    pulls = [Pull("a", 0.3), Pull("b", 0.1, 2.0)]
    assert choose(ARMS, pulls, 7, random.Random(4)) == choose(ARMS, pulls, 7, random.Random(4))
    assert choose([], pulls, 3, random.Random(4)) == []


def attempt(name: str, log2: float | None = None, forecast: float | None = None, cost: Cost | None = None) -> Attempt:
    return Attempt(
        Proposal(Candidate(name, "cpp"), "p", "parent", operator=name, cost=cost or Cost()),
        "passed",
        "",
        Build("ok", 0.0),
        None
        if forecast is None
        else Forecast(bins.from_normal(forecast, 0.1), 0.8, "f", mean_log2=forecast, sd_log2=0.1),
        None if log2 is None else Measurement("ok", "faster", "d", "T0", speedup=2.0**log2),
    )


def rewards(*attempts: Attempt, base: float | None = None) -> list[float]:
    return [p.reward for p in pulls_of(attempts, lambda a: a.proposal.operator, lambda _: base)]


def test_rewards_are_octaves_over_the_parent() -> None:
    assert rewards(attempt("a", 1.5), attempt("b", 0.5), base=2.0) == pytest.approx([0.5, 0.0])


def test_without_a_parent_the_incumbent_of_its_time_stands_in() -> None:
    assert rewards(attempt("a", 1.0), attempt("b", 1.5), attempt("c", 1.2)) == pytest.approx([1.0, 0.5, 0.0])


def test_forecasts_count_half_and_only_where_nothing_was_measured() -> None:
    assert rewards(attempt("a", forecast=1.0), attempt("b", 0.0, forecast=1.0)) == [FORECAST_WORTH * 0.8, 0.0]
    failed = Attempt(Proposal(Candidate("x", "cpp"), "p", operator="x"), "compile_error")
    assert rewards(failed) == [0.0]


def test_costs_are_in_the_first_currency_that_is_known() -> None:
    def costs(*given: Cost) -> list[float]:
        made = [attempt(str(i), cost=c) for i, c in enumerate(given)]
        return [p.cost for p in pulls_of(made, lambda a: a.proposal.operator, lambda _: None)]

    assert costs(Cost(1.0, 10, 5, 0.2), Cost(9.0)) == [0.2, 0.0]
    assert costs(Cost(1.0, 10, 5, None), Cost(9.0, 3, 3, 0.2)) == [15.0, 6.0]
    assert costs(Cost(1.0, dollars=None), Cost(9.0)) == [1.0, 9.0]


def test_attempts_that_are_no_pull_still_raise_the_incumbent() -> None:
    pulls = pulls_of(
        [attempt("a", 1.0), attempt("b", 1.5)], lambda a: "b" * (a.proposal.operator == "b"), lambda _: None
    )
    assert [(p.arm, p.reward) for p in pulls] == [("b", pytest.approx(0.5))]
