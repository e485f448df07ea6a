from __future__ import annotations

import math

import pytest

from forewarp.core import bins


@pytest.mark.parametrize(
    ("speedup", "expected"),
    [(0.1, 0), (0.25, 1), (0.49, 1), (0.5, 2), (0.7, 2), (0.71, 3), (1.0, 4), (1.41, 4), (1.42, 5), (2, 6), (4, 7)],
)
def test_edges_belong_to_the_bin_above(speedup: float, expected: int) -> None:
    assert bins.bin_of(speedup) == expected


def test_a_speedup_is_positive() -> None:
    with pytest.raises(ValueError, match="positive"):
        bins.bin_of(0.0)


def test_ranges_say_what_bin_of_does() -> None:
    assert bins.ranges()[4] == ("minor speed-up", "1.00 ≤ S < 1.41")
    assert len(bins.ranges()) == bins.COUNT == 8
    assert all("speed-up" in label for label in bins.LABELS[bins.FIRST_FASTER :])


def test_normalise_takes_what_models_say() -> None:
    assert bins.normalise([2, 0, 0, 0, 2, 0, 0, 0]) == (0.5, 0, 0, 0, 0.5, 0, 0, 0)
    assert bins.normalise([0.0] * 8) == (0.125,) * 8
    assert bins.normalise([math.nan, -1, 0, 0, 1, 0, 0, 0]) == (0, 0, 0, 0, 1, 0, 0, 0)


def test_normal_puts_half_its_mass_on_each_side_of_its_mean() -> None:
    probabilities = bins.from_normal(0.0, 1.0)
    assert sum(probabilities[:4]) == pytest.approx(0.5)
    # P(0 < Z < 0.5) = 0.19146 for the bin from 1 to √2.
    assert probabilities[4] == pytest.approx(0.19146, abs=1e-4)


def test_quantiles_spread_mass_evenly_over_a_bin() -> None:
    certain = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    assert bins.quantile(certain, 0.5) == pytest.approx(2**1.5)
    assert bins.mean_log2(certain) == pytest.approx(1.5)


def test_expected_improvement_by_hand() -> None:
    certain = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0)  # log2 S even on [1, 2]
    assert bins.expected_improvement(certain, 1.0) == pytest.approx(1.5)
    assert bins.expected_improvement(certain, 2**1.5) == pytest.approx(0.5 * 0.25)
    assert bins.expected_improvement(certain, 4.0) == 0.0


def test_normal_improvement_by_hand() -> None:
    # At the incumbent: sd / sqrt(2 pi). Far above it: the distance. Without doubt: the distance or nothing.
    assert bins.normal_improvement(1.0, 0.5, 2.0) == pytest.approx(0.5 / math.sqrt(2 * math.pi))
    assert bins.normal_improvement(5.0, 0.1, 2.0) == pytest.approx(4.0)
    assert bins.normal_improvement(0.0, 0.0, 2.0) == 0.0
