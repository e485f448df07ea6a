"""What a measurement costs in the scarcest currency, and what the device allows at most."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from support.synthetic_executor import TARGET, seed

from forewarp.core.budget import Budget, Spend
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import (
    Build,
    Candidate,
    Language,
    Measurement,
    Signature,
    TensorSpec,
    WorkloadTiming,
)
from forewarp.search import budget as budgets
from forewarp.search.run import floor_speedup

FAST = replace(TARGET, memory_bandwidth=1e9)
CPP, PYTHON = seed(), Candidate("class ModelNew: ...", "python")


def trial(language: Language, seconds: float) -> Trial:
    m = Measurement("ok", "tie", "t", "T0", "reference", 1.0, 0.9, 1.1, device_s=seconds)
    return Trial(Subject(Candidate("text", language), Build("ok", 0.1)), m)


TRIALS = [trial("cpp", 1.0), trial("cpp", 3.0), trial("python", 8.0)]


def signature(name: str, floats: int) -> Signature:
    x = TensorSpec("x", (floats,), "float32")
    return Signature(name, (x,), {}, {}, (), (x,), None, 8 * floats)


def timed(**anchors: float) -> Measurement:
    timings = tuple(WorkloadTiming(name, 1.0, 0.9, 1.1, s, s, 0.1) for name, s in anchors.items())
    return Measurement("ok", "tie", "t", "T0", "reference", 1.0, 0.9, 1.1, timings)


def test_where_measurements_are_counted_all_cost_the_same() -> None:
    for budget in (Budget(measurements=10), Budget(dollars=1.0), Budget(measurements=10, device_s=1000.0)):
        assert budgets.relative_prices([CPP, PYTHON], TRIALS, budget, Spend()) == [1.0, 1.0]


def test_where_seconds_run_out_first_a_candidate_costs_what_its_language_took() -> None:
    for budget in (Budget(device_s=20.0), Budget(measurements=10, device_s=20.0), Budget(wall_s=20.0)):
        assert budgets.relative_prices([CPP, PYTHON], TRIALS, budget, Spend()) == pytest.approx([0.5, 2.0])
    # Nothing is known of CUDA yet: it costs what is usual.
    assert budgets.relative_prices([Candidate("x", "cuda")], TRIALS, Budget(device_s=20.0), Spend()) == [1.0]


def test_what_was_only_looked_up_takes_no_part_in_what_is_usual() -> None:
    budget, looked_up = Budget(device_s=20.0), [*TRIALS, trial("cuda", 0.0)]
    assert budgets.relative_prices([CPP, PYTHON], looked_up, budget, Spend()) == pytest.approx([0.5, 2.0])
    assert budgets.relative_prices([Candidate("x", "cuda")], looked_up, budget, Spend()) == [1.0]


def test_measurements_that_are_spent_are_no_longer_left() -> None:
    """4 s each: of 40 s ten are left, and of 15 measurements five."""
    budget, spend = Budget(measurements=15, device_s=40.0), Spend(measurements=10)
    assert budgets.relative_prices([PYTHON], TRIALS, budget, spend) == [1.0]
    # As many by seconds as by count: neither runs out first.
    assert budgets.relative_prices([PYTHON], TRIALS, Budget(measurements=10, device_s=40.0), Spend()) == [1.0]


def test_what_is_scarce_changes_as_it_is_spent() -> None:
    budget = Budget(measurements=10, device_s=60.0)
    assert budgets.relative_prices([PYTHON], TRIALS, budget, Spend()) == [1.0]
    assert budgets.relative_prices([PYTHON], TRIALS, budget, Spend(measurements=3, device_s=40.0)) == pytest.approx(
        [2.0]
    )


def test_nothing_measured_yet_or_only_looked_up_says_nothing_of_seconds() -> None:
    budget = Budget(device_s=1.0)
    assert budgets.relative_prices([CPP, PYTHON], [], budget, Spend()) == [1.0, 1.0]
    assert budgets.relative_prices([CPP, PYTHON], [trial("cpp", 0.0)], budget, Spend()) == [1.0, 1.0]


def test_the_floor_is_what_a_kernel_would_gain_that_only_waits_for_memory() -> None:
    signatures = [signature("small", 1000), signature("large", 100_000)]
    # 8 kB take 8 µs at a gigabyte a second, 800 kB take 800 µs.
    found = floor_speedup(timed(small=16e-6, large=6400e-6), signatures, FAST)
    assert found == pytest.approx(math.sqrt(2.0 * 8.0))


def test_a_floor_that_is_not_known_for_all_shapes_is_none() -> None:
    both = [signature("small", 1000), signature("large", 100_000)]
    assert floor_speedup(timed(small=16e-6, large=6400e-6), both, TARGET) is None
    assert floor_speedup(timed(small=16e-6), both, FAST) is None
    assert floor_speedup(timed(small=16e-6, large=6400e-6), both[:1], FAST) is None
    assert floor_speedup(timed(), [], FAST) is None
