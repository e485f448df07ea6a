from __future__ import annotations

from dataclasses import replace

import pytest

from forewarp.core.values import Operation, Signature, Target
from forewarp.surrogate import reference
from forewarp.surrogate.reference import OperationRates, ReferenceTime

GPU = Target("card", "cuda", "sm_90", 132, 1e12, 10e12, 100e12, 50 << 20)
RATES = OperationRates(
    card="card",
    launch_s=1e-6,
    moving={"pointwise": 0.5, "product": 1.0, "other": 0.1},
    computing={"product.16": 0.5, "product.32": 0.5},
    cached=0.25,
    sd_log2={"pointwise": 0.2, "product": 0.6, "other": 1.0},
    elsewhere_sd_log2=0.4,
)
MB = 1_000_000
ADD = Operation("add", "pointwise", "float32", 8 * MB, 0, 2 * MB)
PRODUCT = Operation("mm", "product", "float16", 8 * MB, 0, 8 * MB, flops=5e9)


def task(*operations: Operation, workload: str = "w") -> Signature:
    return Signature(workload, (), {}, {}, (), (), None, 0, operations=operations)


def seconds(*operations: Operation) -> float:
    forecast = reference.forecast([task(*operations)], GPU, RATES)
    assert forecast is not None
    return forecast.seconds["w"]


def test_an_operation_takes_a_launch_and_the_longer_of_moving_and_computing() -> None:
    assert seconds(ADD) == pytest.approx(1e-6 + 10e6 / 0.5e12)
    assert seconds(PRODUCT) == pytest.approx(1e-6 + 5e9 / 50e12)
    assert seconds(replace(PRODUCT, flops=1e6)) == pytest.approx(1e-6 + 16e6 / 1e12)
    assert seconds(replace(PRODUCT, dtype="float32")) == pytest.approx(1e-6 + 5e9 / 5e12)
    assert seconds(ADD, replace(PRODUCT, times=3)) == pytest.approx(seconds(ADD) + 3 * seconds(PRODUCT))
    assert seconds(replace(ADD, kind="unheard of")) == pytest.approx(1e-6 + 10e6 / 0.1e12)


def test_what_still_lies_in_the_cache_takes_less() -> None:
    kept = replace(ADD, kept=8 * MB)
    assert seconds(kept) == pytest.approx(1e-6 + (2e6 + 2e6) / 0.5e12)
    # Half the cache may hold it; what is larger has left it.
    assert seconds(replace(ADD, read=40 * MB, kept=40 * MB)) == seconds(replace(ADD, read=40 * MB))


def test_the_spread_is_that_of_the_kind_that_takes_longest() -> None:
    mixed = reference.forecast([task(ADD, replace(PRODUCT, times=9))], GPU, RATES)
    other = reference.forecast([task(ADD)], replace(GPU, name="another card"), RATES)
    assert mixed is not None
    assert mixed.sd_log2 == pytest.approx(0.6)
    assert other is not None
    assert other.sd_log2 == pytest.approx((0.2**2 + 0.4**2) ** 0.5)


@pytest.mark.parametrize(
    ("signatures", "target"),
    [
        ([task(ADD)], replace(GPU, kind="cpu")),
        ([task(ADD)], replace(GPU, tensor_flops=None)),
        ([task(ADD), task(workload="uncounted")], GPU),
        ([], GPU),
    ],
)
def test_nothing_is_said_of_what_is_not_known(signatures: list[Signature], target: Target) -> None:
    assert reference.forecast(signatures, target, RATES) is None


def test_a_mean_is_geometric() -> None:
    assert ReferenceTime({"a": 1e-6, "b": 4e-6}).mean_s == pytest.approx(2e-6)


def test_operations_of_a_call_are_counted_over_its_workloads() -> None:
    assert reference.count([task(ADD, replace(ADD, times=4)), task(replace(ADD, times=3))]) == 4
    assert reference.count([]) == 0


def test_the_shipped_table_knows_every_kind() -> None:
    rates = reference.shipped()
    assert rates.moving.keys() == rates.sd_log2.keys()
    assert all(0 < share <= 1.5 for share in (*rates.moving.values(), *rates.computing.values()))
    assert rates.card == "NVIDIA H200"
