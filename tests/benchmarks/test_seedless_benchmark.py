"""The figures of `benchmarks/seedless.py`, from rows."""

from __future__ import annotations

from typing import Any

import pytest
from seedless import problems, summary


def row(ratio: float, *, right: bool = True) -> dict[str, Any]:
    over = {"compile": {"ratio": ratio}}
    return {"wall_s": 9.0, "first_s": 4.0, "plain": {"right": {"winner": right}, "over": over, "quiet": over}}


def test_wrong_winners_and_failed_searches_count_as_problems_and_not_as_speed() -> None:
    failed = {"wall_s": 1.0, "first_s": None, "error": {"message": "no compiler"}}
    found = summary({"a": row(2.0), "b": row(0.5), "c": row(9.0, right=False), "d": failed})
    assert (found["problems"], found["right"], found["share"]) == (4, 2, 0.5)
    assert found["over"]["compile"]["ratio"] == pytest.approx(1.0)
    assert found["over"]["compile"]["problems"] == 2


def test_the_best_of_the_other_ways_is_chosen_for_each_problem() -> None:
    found = [row(4.0), row(4.0)]
    found[0]["plain"]["over"]["eager"] = {"ratio": 0.5}
    assert summary({"a": found[0], "b": found[1]})["over_best"]["ratio"] == pytest.approx(2**0.5)


def test_enough_problems_are_listed_each_once() -> None:
    assert len(problems("cpu")) >= 10
    assert len(problems("cuda")) >= 40
