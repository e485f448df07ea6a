"""Forecasts of a space corrected by what was measured in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.spaces import product_space

from forewarp.gpu_runner.devices import known_targets
from forewarp.tuning import feedback
from forewarp.tuning.space import Configuration
from forewarp.tuning.tuner import Exploration, Tried

H200 = known_targets()["h200"]
SIZES = [Configuration({"BLOCK": b}, stages=s) for b in (32, 64, 1024) for s in (2, 3)]


def test_what_is_like_a_slow_configuration_is_forecast_slower() -> None:
    moved = feedback.corrected(np.zeros(6), SIZES, {0: 1.0, 4: 0.0})
    assert moved[1] > moved[5]
    assert moved[2] > moved[5]  # one doubling off the slow one, four off the fast one


def test_an_error_that_all_forecasts_share_moves_all_alike() -> None:
    moved = feedback.corrected(np.zeros(6), SIZES, {0: 5.0, 4: 5.0})
    assert moved == pytest.approx(5.0, abs=0.05)


def test_one_noisy_time_does_not_pin_down_its_forecast() -> None:
    moved = feedback.corrected(np.zeros(6), SIZES, {0: 0.4, 4: 0.0})
    assert 0.2 < moved[0] < 0.38


def test_what_was_not_compiled_is_moved_as_the_compiled_ones_were() -> None:
    assert feedback.with_compiled(np.array([1.0, 2.0, 3.0]), {0: 1.5, 1: 2.5}).tolist() == [1.5, 2.5, 3.5]
    assert feedback.with_compiled(np.array([1.0, 2.0]), {}).tolist() == [1.0, 2.0]


def test_values_that_are_no_numbers_are_told_apart() -> None:
    kinds = [Configuration({"ORDER": order, "EVEN": even}) for order in ("row", "column") for even in (True, False)]
    moved = feedback.corrected(np.zeros(4), kinds, {0: 0.5, 3: -0.5})
    assert moved[1] == pytest.approx(moved[2], abs=1e-6)
    assert moved[0] > moved[1] > moved[3]


def test_those_that_were_not_measured_follow_in_their_order_until_something_was() -> None:
    assert feedback.following([5, 4, 0, 1], np.zeros(6), SIZES, {}) == [5, 4, 0, 1]
    assert feedback.following([5, 4, 0, 1], np.zeros(6), SIZES, {0: 1.0, 4: 0.0}) == [5, 1]


def exploration(*codes: str) -> Exploration:
    """Four configurations of a product, the last not compiled."""
    space = product_space((64, 32), (64, 64), (32, 32), (16, 16))
    tried = {i: Tried(i, c.label, 1.0) for i, c in enumerate(space.configurations)}
    state = Exploration(space, np.zeros(4), tried, [0, 1, 2, 3])
    facts = {i: {"registers": 64, "spills": 0, "shared": 16384, "code": code} for i, code in enumerate(codes)}
    state.add(facts, H200)
    return state


def measure(state: Exploration, **microseconds: float) -> None:
    for place, us in microseconds.items():
        state.tried[int(place[1:])] = replace(state.tried[int(place[1:])], measured_us=us)


def test_code_that_was_measured_is_not_measured_again() -> None:
    state = exploration("a", "a", "b")
    measure(state, _0=10.0)
    assert sorted(state.promising()) == [2, 3]


def test_what_cannot_run_is_not_measured() -> None:
    state = exploration("a", "b", "c")
    state.add({3: {"problem": "OutOfResources"}}, H200)
    assert 3 not in state.promising()
    assert state.promising([2, 3]) == [2]


def test_measured_times_change_what_comes_next() -> None:
    state = exploration("a", "b", "c")
    before = state.promising()
    measure(state, **{f"_{before[0]}": 10.0, f"_{before[1]}": 1e6})
    assert state.fastest() == [before[0]]
    assert set(state.promising()) == set(before[2:])
