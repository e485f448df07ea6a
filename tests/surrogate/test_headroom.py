"""Forecasts of the best kernel from the distance to the roofline."""

from __future__ import annotations

import pytest

from forewarp.core.values import Operation
from forewarp.gpu_runner.devices import detect_cpu, known_targets
from forewarp.surrogate import headroom
from forewarp.surrogate.headroom import Headroom

H200 = known_targets()["h200"]


def test_the_roofline_is_the_longest_of_launch_traffic_and_arithmetic() -> None:
    product = Operation("mm", "product", "bfloat16", 0, 0, 0, flops=989e12 / 1000, times=2)
    assert headroom.roofline_s(4.8e9, [], H200) == pytest.approx(1e-3)
    assert headroom.roofline_s(4.8e9, [product], H200) == pytest.approx(2e-3)
    assert headroom.roofline_s(8, [], H200) > 1e-6  # a launch
    assert headroom.roofline_s(4.8e9, [product], detect_cpu()) == 0.0  # nobody knows its rates


def test_far_from_the_roofline_a_kernel_gains_more_and_never_beats_it_by_forecast() -> None:
    found = [headroom.forecast(gap * 1e-3, 1e-3).quantile(0.5) for gap in (1.0, 2.0, 8.0, 64.0)]
    assert found == sorted(found)
    assert found[0] <= 1.0
    assert all(s <= gap for s, gap in zip(found, (1.0, 2.0, 8.0, 64.0), strict=True))
    assert headroom.shipped().tasks >= 50


def test_the_expected_saving_counts_a_slower_kernel_as_none() -> None:
    assert Headroom(-3.0, 0.01).saving() == 0.0
    assert Headroom(1.0, 1e-6).saving() == pytest.approx(0.5, abs=1e-4)
    assert 0.0 < Headroom(0.0, 1.0).saving() < 0.3
