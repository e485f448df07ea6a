from __future__ import annotations

import json
from dataclasses import replace

import pytest

from forewarp.core import serde
from forewarp.core.budget import Spend
from forewarp.core.values import (
    Build,
    Candidate,
    Cost,
    Evidence,
    Forecast,
    Measurement,
    Task,
    Tolerance,
    Workload,
    WorkloadTiming,
)

TIMING = WorkloadTiming("a", 1.5, 1.4, 1.6, 1e-5, 1.5e-5, 0.1, (0.4, 0.41), (1e-5,) * 4, (1.5e-5,) * 4)
VALUES = [
    Candidate("x", "cuda", {"A": 1}),
    Task("t", "T", "ref", {"cpu": (Workload("w", {"N": 3, "D": "float32"}),), "cuda": ()}, Tolerance(1e-3, 1e-4)),
    Build("ok", 0.1, evidence=Evidence({"registers": 32.0}, ("spills",))),
    Forecast((0.125,) * 8, 0.5, "f", cost=Cost(1.0, 2, 3, None), mean_log2=0.1, sd_log2=0.2),
    Measurement("ok", "faster", "gpu", "T0", speedup=1.5, low=1.4, high=1.6, workloads=(TIMING,), protections=("a",)),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_every_value_survives_json(value: object) -> None:
    assert serde.from_data(type(value), json.loads(json.dumps(serde.to_data(value)))) == value


def test_unknown_keys_are_dropped_and_missing_ones_default() -> None:
    assert serde.from_data(Spend, {"measurements": 3, "of a later version": 1}) == Spend(measurements=3)


def test_identity_of_a_candidate() -> None:
    one = Candidate("s", "cpp", {"A": 1, "B": 2})
    assert one.sha256 == Candidate("s", "cpp", {"B": 2, "A": 1}).sha256
    assert len({one.sha256, Candidate("s", "cuda", one.tunables).sha256, Candidate("s", "cpp", {"A": 1}).sha256}) == 3


def test_to_accept_tf32_is_another_task() -> None:
    task = Task("t", "T", "ref", {"cpu": (), "cuda": ()})
    accepting = replace(task, allow_tf32=True)
    assert accepting.sha256 != task.sha256
    assert replace(accepting, allow_tf32=False).sha256 == task.sha256
    assert len({replace(t, mode=m).sha256 for t in (task, accepting) for m in ("train", "eval")}) == 4


def test_forecast_reads_its_distribution() -> None:
    sure = Forecast((0, 0, 0, 0, 0, 0, 1.0, 0), 0.5, "f")
    assert sure.p_faster == 0.5
    assert sure.confidence == 1.0
    assert sure.median == pytest.approx(2**1.5)
    assert sure.interval == pytest.approx((2**1.1, 2**1.9))


def test_a_finer_forecast_reaches_beyond_the_last_bin() -> None:
    fine = Forecast((0, 0, 0, 0, 0, 0, 0, 1.0), 1.0, "f", mean_log2=5.0, sd_log2=1.0)
    assert fine.median == 32
    assert fine.interval == pytest.approx((2 ** (5 - 1.28155), 2 ** (5 + 1.28155)), rel=1e-4)


def test_a_forecast_sums_to_one() -> None:
    with pytest.raises(ValueError, match="normalise"):
        Forecast((0.1,) * 8, 1.0, "f")


def test_costs_add_and_an_unknown_price_stays_unknown() -> None:
    assert Cost(1, 2, 3, 0.5) + Cost(1, 1, 1, 0.25) == Cost(2, 3, 4, 0.75)
    assert (Cost(dollars=None) + Cost()).dollars is None
