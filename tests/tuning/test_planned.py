"""Tunables of launch-plan kernels as configurations that are forecast."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from forewarp.core.protocols import Known
from forewarp.core.values import Candidate, Signature, Task, TensorSpec
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.formats import plan as plans
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.tuning.planned import TunableForecaster, choices_of

SOURCE = '''"""forewarp
inputs = ["x"]
outputs = ["y"]
constraints = ["BLOCK <= 256 * WARPS"]

[tunables]
BLOCK = [32, 128, 512, 1024, 2048]
WARPS = [1, 2, 4, 8]

[[launch]]
kernel = "scale"
args = ["x", "y", "x.shape[0]"]
grid = ["cdiv(x.shape[0], BLOCK)"]
num_warps = "WARPS"
"""

import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)
'''
TARGET = known_targets()["h200"]
SEED = Candidate(SOURCE, "triton")
TASK = Task("scale", "", "class Model: ...", {}, seeds=(SEED,))
VECTOR = (1 << 26,)
SIGNATURE = Signature(
    *("w", (TensorSpec("x", VECTOR, "float32"),), {}, {}, (), (TensorSpec("y", VECTOR, "float32"),)), None, 1 << 29
)


def forecaster(found: list[Task] | None = None) -> TunableForecaster:
    def describe(task: Task) -> tuple[Signature, ...]:
        (found if found is not None else []).append(task)
        return (SIGNATURE,)

    return TunableForecaster(TARGET, describe)


def test_choices_that_the_constraints_allow_are_ordered_and_small_blocks_come_last() -> None:
    order = forecaster().fastest_first(TASK, SEED, [])
    assert len(order) == 14
    assert all(c["BLOCK"] <= 256 * c["WARPS"] for c in order)
    assert order[0]["BLOCK"] >= 512
    assert {c["BLOCK"] for c in order[-2:]} == {32}


def test_measured_choices_are_left_out_and_correct_those_like_them() -> None:
    forecasts = forecaster()
    first = forecasts.fastest_first(TASK, SEED, [])[0]
    slow = [(first, 3.0), ({"BLOCK": 32, "WARPS": 1}, 0.0)]
    after = forecasts.fastest_first(TASK, SEED, slow)
    assert first not in after
    assert after[0] != forecasts.fastest_first(TASK, SEED, [])[1]


def test_a_search_proposes_the_seed_then_the_choices_forecast_fastest() -> None:
    order = forecaster().fastest_first(TASK, SEED, [])
    made = TunablesProposer(forecaster()).propose(TASK, TARGET, Known(), 4, random.Random(0))
    assert [p.operator for p in made] == ["seed", "forecast", "forecast", "forecast"]
    assert [dict(p.candidate.tunables) for p in made[1:]] == [dict(c) for c in order[:3]]


@pytest.mark.parametrize(
    "seed", [Candidate(SOURCE, "cuda"), Candidate(SOURCE.replace("def scale", "def other"), "triton")]
)
def test_a_kernel_that_cannot_be_followed_is_varied_at_random(seed: Candidate) -> None:
    asked: list[Task] = []
    task = replace(TASK, seeds=(seed,))
    made = TunablesProposer(forecaster(asked)).propose(task, TARGET, Known(), 4, random.Random(0))
    assert all(p.operator in ("seed", "random") for p in made)


def test_of_more_choices_than_can_be_listed_all_values_are_drawn() -> None:
    values = f"[{', '.join(map(str, range(1, 301)))}]"
    source = SOURCE.replace("[32, 128, 512, 1024, 2048]", values).replace("[1, 2, 4, 8]", values)
    choices, number = choices_of(plans.parse(Candidate(source, "triton")), 100)
    assert (len(choices), number, choices[0]) == (100, 90_000, {"BLOCK": 1, "WARPS": 1})
    assert max(c["BLOCK"] for c in choices) > 200
    assert all(c["BLOCK"] <= 256 * c["WARPS"] for c in choices)
