"""What a correction does to one forecast, by itself."""

from __future__ import annotations

import math

import numpy as np
import pytest

from forewarp.core import bins
from forewarp.core.values import Z80, Forecast
from forewarp.surrogate.correction import corrected, half_width, line, normal_scores, scale, spread_of


def forecast(mean: float, sd: float) -> Forecast:
    return Forecast(bins.from_normal(mean, sd), 0.8, "test", mean_log2=mean, sd_log2=sd)


def test_without_parameters_nothing_changes() -> None:
    given = forecast(0.2, 0.5)
    same = corrected(normal_scores(given)[None, :], np.array([spread_of(given)]), (0.0, 0.0, 0.0))
    assert same[0] == pytest.approx(given.probabilities, abs=1e-4)
    assert half_width(0.0) == pytest.approx(Z80)


def test_the_spread_is_that_of_the_interval_and_is_scaled_by_how_sharp_it_is() -> None:
    assert spread_of(forecast(0.2, 0.5)) == pytest.approx(0.5)
    factors = scale(np.array([0.3, 0.6]), math.log(2), 1.0)
    assert factors == pytest.approx([2.0, 4.0])


def test_tails_widen_the_interval_up_to_that_of_the_wide_part() -> None:
    widths = [half_width(tails) for tails in (0.0, 0.1, 0.3, 1.0)]
    assert widths == sorted(widths)
    assert widths[-1] == pytest.approx(4 * Z80)


def test_a_line_leaves_certainty_and_moves_the_rest_in_order() -> None:
    assert [line(p, 1.0, 0.5) for p in (0.0, 1.0)] == [0.0, 1.0]
    moved = [line(p, 1.0, 0.5) for p in (0.1, 0.5, 0.9)]
    assert moved == sorted(moved)
    assert moved[1] == pytest.approx(1 / (1 + math.exp(-1.0)))
