"""Each rule of the gate by itself: machine code, forecasts, times of another day, and rounds."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from forewarp.tools.gate_lock import LockedForecast, LockedLaunch, LockedMeasurement, LockedShape
from forewarp.tools.gate_verdicts import (
    ALARM_ERROR,
    ALARM_ROUNDS,
    CARD_SPREAD,
    ROUNDS,
    decided_within,
    differences,
    disturbed_words,
    forecast_sign,
    judge,
    signs_of_slower,
    times_sign,
)
from forewarp.tools.measured import Micros
from forewarp.tools.parts import Interval

MARGIN = math.log1p(0.02)


def launch(**changes: Any) -> LockedLaunch:
    fields: dict[str, Any] = {"workload": "wide", "kernel": "softmax", "registers": 32, "local_bytes": 0}
    fields |= {"shared_bytes": 16, "occupancy": 0.5, "instructions": {"fp32": 10}}
    return LockedLaunch(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"local_bytes": 8}, "spills"),
        ({"registers": 33}, "more registers: 32 → 33"),
        ({"occupancy": 0.375}, "less occupancy: 50% → 38%"),
    ],
)
def test_code_that_costs_is_likely_slower(changes: dict[str, Any], said: str) -> None:
    (sign,) = signs_of_slower([launch()], [launch(**changes)])
    assert said in sign
    assert "softmax (wide)" in sign
    assert not signs_of_slower([launch(**changes)], [launch()])
    assert differences([launch()], [launch(**changes)])


@pytest.mark.parametrize(
    "changes", [{"registers": 40 - 1}, {"registers": 24}, {"shared_bytes": 4096}, {"instructions": {"fp32": 12}}]
)
def test_what_costs_nothing_by_itself_is_a_change_only(changes: dict[str, Any]) -> None:
    before = launch(registers=33) if changes.get("registers") == 39 else launch()
    assert not signs_of_slower([before], [launch(**changes)])
    assert differences([before], [launch(**changes)])


def test_equal_code_has_no_differences() -> None:
    assert not differences([launch()], [launch()])
    assert not differences([], [])


def test_other_launches_are_named_and_not_compared() -> None:
    others = [launch(), launch(kernel="reduce", local_bytes=64)]
    assert not signs_of_slower([launch()], others)
    (said,) = differences([launch()], others)
    assert "other launches" in said
    assert "reduce" in said


def test_an_unknown_occupancy_is_no_loss() -> None:
    assert not signs_of_slower([launch(occupancy=0.5)], [launch(occupancy=None)])


def forecast(ratio: float, version: str = "1") -> LockedForecast:
    return LockedForecast(median=Interval(ratio=ratio, low=ratio / 2, high=ratio * 2, level=0.8), forewarp=version)


def test_a_forecast_that_falls_by_more_than_the_threshold_is_a_sign() -> None:
    assert "fallen: 2× → 1.9×" in forecast_sign(forecast(2.0), forecast(1.9), 0.02)
    assert not forecast_sign(forecast(2.0), forecast(1.97), 0.02)
    assert not forecast_sign(forecast(2.0), forecast(2.5), 0.02)


def test_forecasts_of_another_forewarp_are_not_compared() -> None:
    assert not forecast_sign(forecast(2.0), forecast(1.0, "2"), 0.02)
    assert not forecast_sign(None, forecast(1.0), 0.02)
    assert not forecast_sign(forecast(2.0), None, 0.02)


def measured(
    ratio: float, half: float = 0.001, *, session_sd: float = 0.0, other_processors: float | None = None
) -> LockedMeasurement:
    interval = Interval(ratio=ratio, low=ratio * (1 - half), high=ratio * (1 + half))
    shape = LockedShape(name="wide", kernel_us=Micros(median=10), speedup=interval, session_sd=session_sd)
    about: dict[str, Any] = {"versions": {}, "date": "2026-01-02T03:04:05", "other_processors": other_processors}
    return LockedMeasurement(anchor="reference", speedup=interval, shapes=[shape], **about)


def test_times_of_another_day_count_beyond_threshold_and_spread_of_cards() -> None:
    beyond = math.exp(MARGIN + CARD_SPREAD)
    sign = times_sign(measured(2.0), measured(2.0 / beyond * 0.99), 0.02)
    assert "since 2026-01-02, wide: 2×" in sign
    assert not times_sign(measured(2.0), measured(2.0 / beyond * 1.01), 0.02)
    # A slow-down that an interleaved comparison would find is not told from another card.
    assert not times_sign(measured(2.0), measured(2.0 / 1.03), 0.02)
    # Whole intervals have to be apart.
    assert not times_sign(measured(2.0, 0.05), measured(2.0 / beyond * 0.97, 0.05), 0.02)


def test_what_equal_kernels_differ_between_sessions_is_no_sign() -> None:
    """Modules on a CPU differ by 3 % (one standard deviation) with nothing changed."""
    before, after = measured(2.0, session_sd=0.03), measured(2.0 / 1.1, session_sd=0.03)
    assert times_sign(measured(2.0), measured(2.0 / 1.1), 0.02)
    assert not times_sign(before, after, 0.02)
    assert times_sign(before, measured(2.0 / 1.15, session_sd=0.03), 0.02)


@pytest.mark.parametrize("busy", [(0.0, 2.0), (2.0, 0.0), (None, 0.2)])
def test_other_work_on_the_processors_decides_nothing(busy: tuple[float | None, float]) -> None:
    before, after = (measured(2.0, other_processors=processors) for processors in busy)
    assert f"{busy[0] or 0:.1f} then, {busy[1]:.1f} now" in disturbed_words(before, after)


def test_a_quiet_machine_is_not_called_disturbed() -> None:
    assert not disturbed_words(measured(2.0), measured(2.0))
    assert not disturbed_words(measured(2.0, other_processors=0.1), measured(2.0, other_processors=0.0))


def test_the_spread_between_cards_is_the_recorded_one() -> None:
    path = Path(__file__).parents[2] / "benchmarks" / "results" / "repeat_agreement.json"
    assert round(json.loads(path.read_text())["shape"]["p95_abs_log_ratio"], 4) == CARD_SPREAD


def rounds(slower: float, n: int, sd: float = 0.001, seed: int = 0) -> list[float]:
    rng = random.Random(seed)
    return [math.log1p(slower) + rng.gauss(0, sd) for _ in range(n)]


@pytest.mark.parametrize(
    ("slower", "verdict"), [(0.0, "same"), (0.05, "slower"), (-0.05, "faster"), (0.01, "same"), (-0.01, "same")]
)
def test_precise_rounds_decide(slower: float, verdict: str) -> None:
    found = judge(rounds(slower, ALARM_ROUNDS[1]), 0.02, 20)
    assert found.verdict == verdict
    assert found.low < 1 + slower < found.high or abs(found.ratio - 1 - slower) < 0.002


def test_noisy_rounds_decide_nothing() -> None:
    for slower in (0.0, 0.03, -0.03):
        assert judge(rounds(slower, ROUNDS[0], sd=0.05), 0.02, 20).verdict is None


def test_noisy_rounds_tell_the_threshold_at_which_they_are_the_same() -> None:
    for n in (5, 7, 19):
        found = rounds(0.01, n, sd=0.05)
        within = decided_within(found)
        last = found[: max(look for look in ROUNDS if look <= n)]
        assert judge(last, within * 1.001, 20).verdict == "same"
        assert judge(last, within * 0.999, 20).verdict is None


def test_nothing_is_decided_between_looks() -> None:
    found = rounds(0.05, ROUNDS[-1], sd=1e-4)
    decided = [n for n in range(2, ROUNDS[-1] + 1) if judge(found[:n], 0.02, 1).verdict is not None]
    assert decided == list(ALARM_ROUNDS)
    equal = rounds(0.0, ROUNDS[-1], sd=1e-4)
    decided = [n for n in range(2, ROUNDS[-1] + 1) if judge(equal[:n], 0.02, 20).verdict is not None]
    assert decided == list(ROUNDS)


def test_more_kernels_ask_more_of_an_alarm_and_not_of_same() -> None:
    # By chance all of eight rounds lie beyond their median once in 256: too often among 20 tests, not for one.
    found = rounds(0.05, 8)
    assert judge(found, 0.02, 2).verdict == "slower"
    assert judge(found, 0.02, 20).verdict is None
    assert judge(rounds(0.05, 10), 0.02, 20).verdict == "slower"
    equal = [math.log(r) for r in (0.997, 1.003, 0.999, 1.001, 1.0)]
    assert judge(equal, 0.02, 1).verdict == judge(equal, 0.02, 1000).verdict == "same"


def test_the_threshold_is_the_users() -> None:
    found = rounds(0.05, ALARM_ROUNDS[0])
    assert judge(found, 0.10, 1).verdict == "same"
    assert judge(found, 0.02, 1).verdict == "slower"


@pytest.mark.parametrize("side", [1, -1])
def test_false_alarms_keep_their_bound_at_the_threshold_itself(side: int) -> None:
    """Twenty kernels with a median at the threshold and noise to one side: any alarm in at most one gate of twenty."""
    rng, gates, alarms = random.Random(1), 150, 0
    for _ in range(gates):
        kernels = [
            [MARGIN + side * 0.01 * (rng.lognormvariate(0, 0.75) - 1) for _ in range(ROUNDS[-1])] for _ in range(20)
        ]
        alarms += any(judge(k[:n], 0.02, 20).verdict == "slower" for k in kernels for n in ALARM_ROUNDS)
    # 5 % of 150, and three standard deviations of chance.
    assert alarms <= ALARM_ERROR * gates + 3 * math.sqrt(ALARM_ERROR * gates)


@pytest.mark.parametrize("tests", [1, 3])
def test_the_error_of_all_looks_together_is_bounded_by_counting_every_order_of_rounds(tests: int) -> None:
    """Each round lies beyond the threshold or within it by a fair coin: of all series, so many raise an alarm."""
    last, alarms = ALARM_ROUNDS[2], 0
    for series in range(2**last):
        ratios = [0.5 if series >> k & 1 else MARGIN - 1e-9 for k in range(last)]
        alarms += any(judge(ratios[:n], 0.02, tests).verdict == "slower" for n in ALARM_ROUNDS if n <= last)
    assert alarms / 2**last <= ALARM_ERROR / tests * 3 / len(ALARM_ROUNDS)


def test_rounds_of_which_a_few_are_far_off_raise_no_alarm() -> None:
    """The mean lies beyond the threshold, and a usual round within it."""
    assert judge([*rounds(0.01, 14), *rounds(0.2, 5)], 0.02, 1).verdict is None
