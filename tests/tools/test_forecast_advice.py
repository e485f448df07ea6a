from __future__ import annotations

import pytest

from forewarp.core import bins
from forewarp.core.values import Forecast, Measurement
from forewarp.tools.forecast_kernel import as_forecast, judge


def normal(mean: float, sd: float, p_valid: float) -> Forecast:
    return Forecast(bins.from_normal(mean, sd), p_valid, "f", mean_log2=mean, sd_log2=sd)


@pytest.mark.parametrize(
    ("forecast", "rival", "advice", "says"),
    [
        (normal(1.0, 0.2, 0.99), 1.0, "accept", "hardly change"),
        (normal(1.0, 0.2, 0.9), 1.0, "measure", "90%"),
        (normal(0.15, 0.05, 0.99), 1.0, "measure", "chance of beating"),
        (normal(1.0, 0.2, 0.99), 1.9, "measure", "the best so far"),
        (normal(-1.0, 0.2, 0.99), 1.0, "skip", "only 0.0%"),
    ],
)
def test_advice_follows_the_chance_of_beating_the_rival(
    forecast: Forecast, rival: float, advice: str, says: str
) -> None:
    found = judge(forecast, rival, "the best so far", None)
    assert (found.advice, says in found.reason) == (advice, True)


def test_a_measured_kernel_is_a_narrow_forecast() -> None:
    found = as_forecast(Measurement("ok", "faster", "d", "T0", speedup=2.0, low=1.9, high=2.1))
    assert found is not None
    assert (found.median, found.p_valid) == (2.0, 1.0)
    assert found.interval == pytest.approx((1.935, 2.067), abs=0.005)
    assert as_forecast(Measurement("ok", "suspicious", "d", "T0", speedup=2.0, low=1.9, high=2.1)) is None
    assert as_forecast(Measurement("crashed", "failed", "d", "T0")) is None
