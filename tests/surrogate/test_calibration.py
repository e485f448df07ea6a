import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from contracts.forecaster_contract import TARGET, TASK, ForecasterContract, failed, measured, subject, without_cost
from scipy.special import ndtri

from forewarp.core import bins, serde
from forewarp.core.protocols import Forecaster, Subject, Trial
from forewarp.core.values import Z80, Cost, Forecast, Measurement, Target, Task
from forewarp.surrogate import calibration
from forewarp.surrogate.calibration import (
    CORRELATION,
    IDENTITY,
    MIN_OUTCOMES,
    Calibration,
    Outcome,
    Recalibrated,
    TaskOutcomes,
    corrected,
    fit,
    half_width,
    line,
    normal_scores,
    scale,
    shipped,
    spread_of,
)
from forewarp.surrogate.drift import pit, pit_valid
from forewarp.surrogate.evaluation import metrics
from forewarp.surrogate.learned import LearnedForecaster

SOME = Calibration("some", spread=0.4, tilt=-0.2, tails=0.05, valid_shift=0.3, valid_slope=-0.2)


def normal(mean: float, sd: float, p_valid: float = 0.8, *, known: bool = True) -> Forecast:
    p = bins.from_normal(mean, sd)
    return Forecast(p, p_valid, "test", "why", mean_log2=mean, sd_log2=sd) if known else Forecast(p, p_valid, "test")


def outcomes(seed: int, count: int, tasks: int, *, said: float = 0.2, true: float = 0.2) -> list[Outcome]:
    """Forecasts that state a spread of `said` octaves where the true one is `true`; all that valid at 0.8 are 80 %."""
    rng = np.random.default_rng(seed)
    found: list[Outcome] = []
    for i in range(count):
        mean = float(rng.normal(0, 1))
        valid = bool(rng.random() < 0.8)
        speedup = 2.0 ** float(rng.normal(mean, true)) if valid else None
        found.append(Outcome(normal(mean, said), speedup, f"task {i % tasks}"))
    return found


def surprise(of: Sequence[Outcome], calibration: Calibration) -> float:
    timed = [(calibration.apply(o.forecast).probabilities, o.speedup) for o in of if o.speedup]
    return metrics.nll([p for p, _ in timed], metrics.bins_of([s for _, s in timed]))


class TestRecalibrated(ForecasterContract):
    @pytest.fixture
    def forecaster(self) -> Forecaster:
        return Recalibrated(LearnedForecaster(), SOME)


def test_a_normal_forecast_becomes_a_wider_normal():
    wider = Calibration(spread=math.log(2)).apply(normal(0.3, 0.4))
    assert wider.probabilities == pytest.approx(bins.from_normal(0.3, 0.8), abs=1e-4)
    assert wider.sd_log2 == pytest.approx(0.8, rel=1e-6)
    assert wider.median == pytest.approx(2**0.3)


def test_the_tilt_widens_the_sharp_and_narrows_the_wide():
    tilted = Calibration(tilt=-0.5)
    assert (tilted.apply(normal(0, 0.3)).sd_log2 or 0) == pytest.approx(0.3)
    assert (tilted.apply(normal(0, 0.075)).sd_log2 or 0) == pytest.approx(0.15)
    assert (tilted.apply(normal(0, 1.2)).sd_log2 or 0) == pytest.approx(0.6)


def test_tails_widen_the_interval_as_the_mixture_says():
    # 80 % of 0.8·N(0, 1) + 0.2·N(0, 4²) lie within ±h: checked by 4·10⁵ draws.
    rng = np.random.default_rng(0)
    draws = rng.normal(0, 1, 400_000) * np.where(rng.random(400_000) < 0.2, 4.0, 1.0)
    half = float(np.quantile(np.abs(draws), 0.8))
    found = Calibration(tails=0.2).apply(normal(0, 1.0)).interval
    assert math.log2(found[1]) == pytest.approx(half, rel=0.01)


def test_name_rationale_and_cost_stay_and_the_identity_changes_nothing():
    given = replace(normal(0.1, 0.3), cost=Cost(seconds=2.0), raw_sum=0.9)
    found = SOME.apply(given)
    assert (found.forecaster, found.rationale, found.cost, found.raw_sum) == ("test", "why", given.cost, 0.9)
    assert IDENTITY.apply(given) is given


@pytest.mark.parametrize("known", [True, False])
def test_the_order_of_medians_never_changes(known: bool):
    rng = np.random.default_rng(3)
    for _ in range(20):
        parameters = rng.uniform([-1, -0.5, 0, -1, -1], [1, 0.5, 0.4, 1, 1])
        calibration = Calibration("x", *(float(v) for v in parameters))
        if known:
            forecasts = [
                normal(float(m), float(s))
                for m, s in zip(rng.normal(0, 1.5, 40), rng.uniform(0.01, 2, 40), strict=True)
            ]
        else:
            forecasts = [Forecast(bins.normalise(rng.dirichlet([0.3] * 8).tolist()), 0.5, "x") for _ in range(40)]
            forecasts.append(Forecast((0, 0, 0, 0, 1, 0, 0, 0), 0.5, "x"))
        before = [f.median for f in forecasts]
        after = [calibration.apply(f).median for f in forecasts]
        assert np.argsort(before, kind="stable").tolist() == np.argsort(after, kind="stable").tolist()
        assert after == pytest.approx(before)


def test_p_valid_rises_with_p_valid():
    said = [0.0, 0.01, 0.3, 0.5, 0.9, 0.999, 1.0]
    found = [SOME.apply(normal(0, 1, p)).p_valid for p in said]
    assert found == sorted(found)
    assert all(0 <= p <= 1 for p in found)


def test_sure_bins_give_some_to_their_neighbours():
    sure = Forecast((0, 0, 0, 0, 1, 0, 0, 0), 1.0, "x")
    found = Calibration(spread=0.7).apply(sure).probabilities
    assert 0.01 < found[3] < 0.1
    assert found[3] > 2 * found[2]
    assert found[4] > 0.85


def test_over_confidence_is_found_and_put_right():
    train, other = outcomes(0, 400, 8, said=0.15, true=0.45), outcomes(1, 1000, 8, said=0.15, true=0.45)
    found = fit(train)
    assert 1.6 < math.exp(found.spread + found.tilt * math.log(0.15 / 0.3)) < 3.5
    assert surprise(other, found) < surprise(other, IDENTITY) - 0.1
    assert (found.outcomes, found.tasks) == (400, 8)


def test_under_confidence_is_found_too():
    other = outcomes(1, 1000, 8, said=0.6, true=0.15)
    found = fit(outcomes(0, 400, 8, said=0.6, true=0.15))
    assert surprise(other, found) < surprise(other, IDENTITY) - 0.1


def test_forecasts_that_are_too_sharp_or_too_wide_are_told_apart():
    sharp, wide = outcomes(0, 200, 200, said=0.1, true=0.3), outcomes(1, 200, 200, said=0.9, true=0.3)
    found = fit([*sharp, *wide])
    assert found.tilt < -0.4
    by_spread = [math.exp(found.spread + found.tilt * math.log(sd / 0.3)) for sd in (0.1, 0.9)]
    assert by_spread == pytest.approx([3.0, 1 / 3], rel=0.4)
    assert fit([*outcomes(0, 200, 200, said=0.1, true=0.05), *outcomes(1, 200, 200, said=0.9, true=1.4)]).tilt > 0.2


def test_a_correction_is_held_to_what_is_plausible():
    expected = outcomes(0, 90, 90)
    far = [replace(o, speedup=o.speedup and o.speedup * 16.0 ** (-1) ** i) for i, o in enumerate(expected)]
    surprised = fit([o if i % 3 else f for i, (o, f) in enumerate(zip(expected, far, strict=True))])
    assert 0.1 < surprised.tails <= 0.3
    assert fit(outcomes(0, 200, 200, said=0.02, true=1.5)).spread <= 1.5
    narrow = fit(outcomes(0, 400, 400, said=2.0, true=0.05))
    assert (narrow.spread, narrow.tilt) == (-1.5, -0.9)
    sharp, wide = outcomes(0, 1500, 1500, said=0.1, true=0.45), outcomes(1, 1500, 1500, said=0.9, true=0.2)
    assert fit([*sharp, *wide]).tilt == -0.9


def test_a_far_correction_is_found_although_none_fits_as_well_as_a_small_one():
    # From the start alone, the search ends at no correction at all.
    assert fit(outcomes(0, 26, 30, said=0.02, true=1.5)).spread > 1.0


def test_figures_have_four_digits():
    found = fit(outcomes(0, 400, 8, said=0.15, true=0.45))
    assert found.tilt == round(found.tilt, 4) != round(found.tilt, 3)


def test_a_fit_begins_with_the_least_number_of_outcomes():
    valid = [o for o in outcomes(0, 40, 40, said=0.1, true=0.6) if o.valid]
    assert fit(valid[:MIN_OUTCOMES]).spread > 0.1
    assert fit(valid[: MIN_OUTCOMES - 1]).spread == 0.0


def test_validity_that_is_always_said_too_high_is_shifted():
    said = [(0.9, 100, 200), (0.5, 20, 200)]
    found = fit(
        [Outcome(normal(0, 0.2, p), 1.0 if k < hits else None, f"{p} {k}") for p, hits, of in said for k in range(of)]
    )
    assert [line(p, found.valid_shift, found.valid_slope) for p, _, _ in said] == pytest.approx([0.5, 0.1], abs=0.05)
    assert found.valid_shift < -1.5


@pytest.mark.parametrize("part", ["spread", "tilt", "valid_shift", "valid_slope"])
def test_few_outcomes_are_held_back_by_the_prior(part: str):
    few = outcomes(3, 16, 16, said=0.2, true=0.3)
    few = [replace(o, forecast=replace(o.forecast, p_valid=0.97 if i % 2 else 0.7)) for i, o in enumerate(few)]
    held, loose = (getattr(fit(few, looseness=looseness), part) for looseness in (1.0, 8.0))
    assert 0 < abs(held) < 0.8 * abs(loose)
    assert held * loose > 0


@pytest.mark.parametrize("count", [15, pytest.param(40, marks=pytest.mark.slow), 200])
def test_calibrated_forecasts_are_left_alone(count: int):
    costs: list[float] = []
    for seed in range(8):
        found = fit(outcomes(seed, count, 4))
        costs.append(surprise(outcomes(100 + seed, 400, 4), found) - surprise(outcomes(100 + seed, 400, 4), IDENTITY))
    assert np.mean(costs) < 0.01
    assert max(costs) < 0.05


def test_too_few_outcomes_leave_the_start():
    few = outcomes(0, MIN_OUTCOMES - 1, 1, said=0.05, true=1.0)
    assert fit(few) == IDENTITY
    assert fit(few, SOME) == SOME


def test_outcomes_of_one_task_count_less_than_those_of_many():
    one = fit([replace(o, task="same") for o in outcomes(0, 60, 60, said=0.15, true=0.5)])
    many = fit(outcomes(0, 60, 60, said=0.15, true=0.5))
    assert 0 < one.spread < many.spread


def test_a_fit_starts_from_another_calibration():
    start = Calibration("x", spread=0.8)
    found = fit(outcomes(0, 20, 1), start)
    assert 0.0 < found.spread <= 0.8


def test_it_survives_json():
    assert serde.from_data(Calibration, serde.to_data(SOME)) == SOME


def learned_from(measurement: Measurement) -> Outcome:
    """Return the outcome that a forecaster makes of a measurement of what it forecast."""
    asked, forecast = subject(1), normal(0, 1)
    outcomes = TaskOutcomes(IDENTITY, open={asked.candidate.sha256: (forecast, forecast)})
    outcomes.learn([Trial(asked, measurement)], TASK.name)
    return outcomes.outcomes[0]


def test_an_untrusted_measurement_is_no_valid_outcome():
    cheat = Measurement("ok", "suspicious", "a CPU", "T0", speedup=40.0, low=39.0, high=41.0)
    assert not learned_from(cheat).valid
    assert learned_from(measured(1.5)).speedup == 1.5
    assert not learned_from(failed()).valid


def test_transforms_of_calibrated_forecasts_are_uniform():
    found = outcomes(5, 2000, 1, said=0.6, true=0.6)
    timed = [pit(o.forecast, o.speedup, str(i)) for i, o in enumerate(found) if o.speedup]
    valid = [pit_valid(0.8, valid=o.valid, key=str(i)) for i, o in enumerate(found)]
    for transforms in (timed, valid):
        shares = np.histogram(transforms, bins=10, range=(0, 1))[0] / len(transforms)
        assert np.abs(shares - 0.1).max() < 0.03


def test_unknown_tiers_have_no_correction_and_models_share_one():
    assert shipped("nobody").is_identity
    assert shipped("llm:some-model").tier in ("llm", "llm:some-model")


class Sharp:
    """Says every block size is a 1.2-fold speed-up, and is far too sure of it."""

    name = "sharp"

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        return [Forecast(bins.from_normal(0.25, 0.05), 0.9, self.name, mean_log2=0.25, sd_log2=0.05) for _ in subjects]


def run(forecaster: Recalibrated, count: int, spread: float, level: float = 0.25) -> list[Trial]:
    """Forecast `count` candidates in rounds of five, and measure each round before the next."""
    history: list[Trial] = []
    for start in range(0, count, 5):
        asked = [subject(k + 1) for k in range(start, start + 5)]
        forecaster.forecast(TASK, TARGET, asked, history)
        for k, one in enumerate(asked, start):
            away = spread * float(ndtri(((k * 0.618034) % 1.0) * 0.98 + 0.01))
            history.append(Trial(one, measured(2 ** (level + away))))
    return history


def test_a_run_learns_that_its_forecaster_is_too_sure():
    forecaster = Recalibrated(Sharp(), IDENTITY)
    history = run(forecaster, 40, 0.8)
    asked = [subject(500)]
    raw, found = Sharp().forecast(TASK, TARGET, asked, [])[0], forecaster.forecast(TASK, TARGET, asked, history)[0]
    assert (found.sd_log2 or 0) > 3 * (raw.sd_log2 or 0)
    assert found.median == pytest.approx(raw.median)
    again = Recalibrated(Sharp(), IDENTITY)
    assert run(again, 40, 0.8) == history
    assert again.forecast(TASK, TARGET, asked, history) == [found]


def test_a_run_that_no_spread_explains_raises_the_alarm():
    forecaster = Recalibrated(Sharp(), IDENTITY)
    history = run(forecaster, 40, 0.05, level=-1.5)
    assert forecaster.outcomes(TASK, TARGET).drift.alarmed
    assert "drift" in forecaster.forecast(TASK, TARGET, [subject(500)], history)[0].rationale


def test_a_run_that_goes_as_forecast_stays_as_it_is():
    forecaster = Recalibrated(Sharp(), IDENTITY)
    history = run(forecaster, 40, 0.05)
    found = forecaster.forecast(TASK, TARGET, [subject(500)], history)[0]
    assert not forecaster.outcomes(TASK, TARGET).drift.alarmed
    assert 0.03 < (found.sd_log2 or 0) < 0.09


def test_a_fresh_object_uses_the_calibration_that_it_is_given():
    history = run(Recalibrated(Sharp(), SOME), 30, 0.8)
    fresh = Recalibrated(Sharp(), SOME)
    raw = Sharp().forecast(TASK, TARGET, [subject(500)], [])[0]
    made = without_cost(fresh.forecast(TASK, TARGET, [subject(500)], history)[0])
    assert replace(made, uncorrected=None) == SOME.apply(raw)


def test_a_run_is_fitted_from_its_own_outcomes_and_the_calibration_that_it_began_with():
    forecaster = Recalibrated(Sharp(), SOME)
    history = run(forecaster, 30, 0.1)
    forecaster.forecast(TASK, TARGET, [subject(500)], history)
    raw = Sharp().forecast(TASK, TARGET, [subject(500)], [])[0]
    own = [Outcome(raw, t.measurement.believed, TASK.name) for t in history]
    learned = forecaster.outcomes(TASK, TARGET)
    assert not learned.drift.alarmed
    assert learned.calibration() == fit(own, SOME, correlation=CORRELATION)
    # Once the alarm goes off, outcomes count in full and the prior is loosened.
    learned.drift.alarmed_at = 30
    learned.outcomes.append(own[0])
    assert learned.calibration() == fit([*own, own[0]], SOME, correlation=0.0, looseness=2.0)


def test_forecasts_made_after_the_measurement_teach_nothing():
    forecaster = Recalibrated(Sharp(), IDENTITY)
    history = [Trial(subject(k), measured(4.0)) for k in range(1, 30)]
    for _ in range(3):
        forecaster.forecast(TASK, TARGET, [t.subject for t in history], history)
    assert forecaster.outcomes(TASK, TARGET).calibration() == IDENTITY


def test_outcomes_of_one_task_count_less_the_more_there_are_and_a_single_one_counts_whole() -> None:
    outcomes = [SimpleNamespace(task=name) for name in ("alone", "pair", "pair")]
    weights = vars(calibration)["_weights"](outcomes, 0.5)
    assert list(weights) == pytest.approx([1.0, 1 / 1.5, 1 / 1.5])


def test_without_parameters_nothing_changes() -> None:
    given = normal(0.2, 0.5)
    same = corrected(normal_scores(given)[None, :], np.array([spread_of(given)]), (0.0, 0.0, 0.0))
    assert same[0] == pytest.approx(given.probabilities, abs=1e-4)
    assert half_width(0.0) == pytest.approx(Z80)


def test_the_spread_is_that_of_the_interval_and_is_scaled_by_how_sharp_it_is() -> None:
    assert spread_of(normal(0.2, 0.5)) == pytest.approx(0.5)
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


def test_what_an_earlier_process_had_forecast_becomes_outcomes_after_a_recall():
    first, second = Recalibrated(Sharp(), IDENTITY), Recalibrated(Sharp(), IDENTITY)
    asked = [subject(k + 1) for k in range(20)]
    made = first.forecast(TASK, TARGET, asked, [])
    second.recall(TASK, TARGET, {s.candidate.sha256: f for s, f in zip(asked, made, strict=True)})
    history = [Trial(s, measured(2.0 ** (0.25 + 0.4 * (-1) ** k))) for k, s in enumerate(asked)]
    for forecaster in (first, second):
        forecaster.forecast(TASK, TARGET, [subject(500)], history)
    assert len(second.outcomes(TASK, TARGET).outcomes) == 20
    assert second.outcomes(TASK, TARGET).calibration() == first.outcomes(TASK, TARGET).calibration() != IDENTITY


def test_validity_is_corrected_towards_what_came_true():
    said = [(0.95, 8, 11), (0.05, 3, 11)]
    found = fit(
        [Outcome(normal(0, 0.2, p), 1.0 if k < hits else None, f"{p} {k}") for p, hits, of in said for k in range(of)]
    )
    assert found.valid_slope < -0.3
    corrected_p = [line(p, found.valid_shift, found.valid_slope) for p, _, _ in said]
    assert corrected_p == pytest.approx([0.75, 0.25], abs=0.12)
    assert (found.spread, found.outcomes, found.tasks) == (0.0, 22, 22)


def test_certainty_that_failed_can_be_learned_from():
    certain = [Outcome(normal(0, 0.2, 1.0), None if k % 2 else 1.0, str(k)) for k in range(20)]
    found = fit(certain)
    assert all(map(math.isfinite, (found.valid_shift, found.valid_slope)))
    assert found.valid_slope < 0


def test_a_calibration_that_rests_on_nothing_says_so():
    assert shipped("nobody") == Calibration("nobody", outcomes=0, tasks=0)
    assert fit(outcomes(0, MIN_OUTCOMES - 1, 3)) == IDENTITY
