"""When outcomes cry that forecasts are wrong, and what they are trusted with afterwards."""

from __future__ import annotations

import math
import random

from forewarp.core import bins
from forewarp.core.values import Forecast, Measurement
from forewarp.surrogate.drift import ALPHA, FALLBACK, DriftWatch

SD = 0.4


def measured(speedup: float, *, early: bool = False) -> Measurement:
    low, high = speedup * 0.97, speedup * 1.03
    return Measurement("ok", "faster", "t", "T0", "reference", speedup, low, high, stopped_early=early)


FAILED = Measurement("incorrect", "incorrect", "t", "T0")


def told(
    watch: DriftWatch, seed: int, count: int, *, off: float = 0.0, p_valid: float = 1.0, valid: float = 1.0
) -> None:
    """Tell of `count` outcomes that lie `off` octaves beside their forecasts; slow ones were stopped early."""
    rng, best = random.Random(seed), 1.0
    for number in range(count):
        # What is measured is what promises to beat the best, and mostly does not.
        mean = math.log2(best) + rng.gauss(-0.3, 0.3)
        speedup = 2.0 ** rng.gauss(mean + off, SD)
        early = speedup * 1.03 < best
        m = measured(speedup, early=early) if rng.random() < valid else FAILED
        watch.add(f"{seed} {number}", Forecast(bins.from_normal(mean, SD), p_valid, "f"), m)
        best = max(best, min(speedup, 3.0))


def test_calibrated_forecasts_raise_no_alarm_although_slow_ones_are_stopped() -> None:
    alarms = 0
    for seed in range(40):
        watch = DriftWatch()
        told(watch, seed, 100, p_valid=0.8, valid=0.8)
        alarms += watch.alarms
    # One of a hundred runs is expected to err at most.
    assert alarms <= 2


def test_forecasts_that_are_too_high_raise_it_and_everything_is_measured_for_a_while() -> None:
    watch = DriftWatch()
    count = 0
    while not watch.alarms:
        told(watch, count, 1, off=-1.5)
        count += 1
        assert count < 60
    assert watch.waiting
    assert watch.waiting == FALLBACK
    for left in range(FALLBACK - 1, -1, -1):
        assert watch.waiting
        told(watch, 1000 + left, 1, off=-1.5)
        assert watch.waiting == left
    assert not watch.waiting
    assert watch.alarms == 1
    # It is set again, and less easily raised.
    assert watch.drift.alpha == ALPHA / 2
    assert not watch.drift.alarmed
    assert watch.drift.count == 0


def test_failures_where_none_were_expected_raise_it_too() -> None:
    watch = DriftWatch()
    told(watch, 0, 60, p_valid=0.97, valid=0.2)
    assert watch.alarms >= 1


def test_what_is_not_to_be_believed_says_nothing_of_speed() -> None:
    believed, doubted = DriftWatch(), DriftWatch()
    forecast = Forecast(bins.from_normal(0.0, SD), 0.5, "f")
    for number in range(20):
        fast = measured(30.0)
        believed.add(str(number), forecast, fast)
        suspicious = Measurement("ok", "suspicious", "t", "T0", "reference", 30.0, 29.0, 31.0)
        doubted.add(str(number), forecast, suspicious)
    assert believed.alarms >= 1
    assert doubted.alarms == 0


def test_false_alarms_of_a_run_stay_below_twice_the_first_ones_chance() -> None:
    watch, chances = DriftWatch(), [ALPHA]
    for _ in range(6):
        watch.waiting = 1
        told(watch, 0, 1)
        chances.append(watch.drift.alpha)
    assert sum(chances) < 2 * ALPHA
