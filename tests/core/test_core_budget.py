from __future__ import annotations

import pytest

from forewarp.core.budget import Budget, Shortage, Spend, warnings


def test_amounts_add_up_and_the_larger_ones_are_taken() -> None:
    one, other = Spend(1, 2.0, 0.5, 10, 1.0), Spend(3, 1.0, 0.25, 20)
    assert one + other == Spend(4, 3.0, 0.75, 30, 1.0)
    assert one | other == Spend(3, 2.0, 0.5, 20, 1.0)
    assert Budget(3, dollars=1.5).whole() == Spend(3, dollars=1.5)


def test_the_highest_share_of_each_cap_is_named() -> None:
    budget = Budget(measurements=10, tokens=1000, wall_s=100.0)
    assert list(warnings(budget, Spend(4, tokens=499))) == []
    assert list(warnings(budget, Spend(5, tokens=900, wall_s=79.9, device_s=1e9))) == [
        Shortage("measurements", 5, 10, 0.5),
        Shortage("tokens", 900, 1000, 0.8),
        Shortage("wall_s", 79.9, 100.0, 0.5),
    ]


def test_what_is_left_of_a_cap_is_never_below_nothing() -> None:
    budget = Budget(measurements=10)
    assert [budget.left("measurements", Spend(n)) for n in (0, 4, 10, 12)] == [10, 6, 0, 0]
    assert Budget().left("measurements", Spend(4)) is None


def test_a_spent_cap_is_named_with_its_unit() -> None:
    budget = Budget(measurements=10, dollars=2.5, tokens=2_000_000, wall_s=60.0)
    assert [budget.spent_words(c) for c in budget.caps] == [
        "the budget of 10 measurements is spent",
        "the budget of 2.5 dollars is spent",
        "the budget of 2000000 tokens is spent",
        "the budget of 60 s of wall time is spent",
    ]


@pytest.mark.parametrize(
    ("budget", "spend", "expected"),
    [
        (Budget(measurements=3), Spend(measurements=2), None),
        (Budget(measurements=3), Spend(measurements=3), "measurements"),
        (Budget(dollars=1.0), Spend(measurements=99, dollars=1.5), "dollars"),
        (Budget(), Spend(99, 99, 99, 99, 99), None),
    ],
)
def test_budget(budget: Budget, spend: Spend, expected: str | None) -> None:
    assert budget.exhausted(spend) == expected
