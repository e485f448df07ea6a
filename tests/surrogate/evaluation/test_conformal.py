import math

import numpy as np
import pytest
from scipy.stats import binom

from forewarp.core import bins
from forewarp.core.values import Forecast
from forewarp.surrogate.calibration import Outcome
from forewarp.surrogate.evaluation import conformal


def draw(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and errors that get rarer as the score rises: P(wrong) = (1 − score)²."""
    scores = rng.random(count)
    return scores, rng.random(count) < (1 - scores) ** 2


def test_what_is_decided_is_wrong_at_most_as_often_as_promised():
    rng = np.random.default_rng(0)
    alpha, delta, broken, decided = 0.1, 0.1, 0, []
    for _ in range(300):
        found = conformal.selective(*draw(rng, 300), alpha, delta=delta)
        if found.value is not None:
            # Mean of (1 − s)² over s uniform above the threshold.
            broken += (1 - found.value) ** 2 / 3 > alpha
        decided.append(found.decided)
    # With at most delta of the thresholds broken on average, more than 43 of 300 are seen once in a hundred tests.
    assert broken <= 43
    assert np.mean(decided) > 0.2


def test_expected_risk_is_kept_on_average():
    rng = np.random.default_rng(1)
    alpha, losses = 0.05, []
    for _ in range(400):
        found = conformal.expected(*draw(rng, 60), alpha)
        assert found.value is not None
        losses.append((1 - found.value) ** 3 / 3)
    assert np.mean(losses) <= alpha + 3 * np.std(losses) / math.sqrt(len(losses))
    assert np.mean(losses) > alpha / 3


def test_groups_are_the_units_of_expected_risk():
    # Nineteen tasks of 50 are nineteen draws: with alpha = 1/20 no error at all fits, with 950 draws some do.
    rng = np.random.default_rng(2)
    scores, wrong = draw(rng, 950)
    tasks = [str(i // 50) for i in range(950)]
    grouped, alone = conformal.expected(scores, wrong, 0.05, groups=tasks), conformal.expected(scores, wrong, 0.05)
    assert grouped.outcomes == 19
    assert grouped.value == pytest.approx(max(scores[wrong]))
    assert alone.value is not None
    assert grouped.value is not None
    assert alone.value < grouped.value


def test_by_hand():
    # Ten outcomes, alpha = 0.2: (errors + 1)/11 ≤ 0.2 lets one error in, so the second highest wrong score is the
    # threshold, and what lies above it is decided.
    scores = [0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1]
    wrong = [False, True, False, False, True, False, True, False, False, True]
    found = conformal.expected(scores, wrong, 0.2)
    assert found.value == 0.6
    assert (found.decided, found.error) == (pytest.approx(0.4), pytest.approx(0.25))


def test_the_bound_is_the_exact_binomial_one():
    needed = conformal.selective([], [], 0.05, delta=0.1).needed
    level = 0.1 / 6
    assert binom.cdf(0, needed, 0.05) <= level < binom.cdf(0, needed - 1, 0.05)
    perfect = conformal.selective(np.linspace(0.1, 1, needed), [False] * needed, 0.05, delta=0.1)
    assert (perfect.value, perfect.decided) == (0.0, 1.0)
    spoilt = conformal.selective(np.linspace(0.1, 1, needed), [True] + [False] * (needed - 1), 0.05, delta=0.1)
    assert spoilt.value is None


@pytest.mark.parametrize("rule", [conformal.selective, conformal.expected])
def test_too_few_or_none_decide_nothing(rule):
    for count in (0, 1, 5):
        found = rule([0.9] * count, [False] * count, 0.05)
        assert found.value is None
        assert (found.decided, found.error) == (0.0, 0.0)
        assert found.needed > count


def test_ties_are_decided_together():
    found = conformal.selective([0.9] * 200 + [0.1] * 200, [False] * 200 + [True] * 200, 0.1)
    assert found.value == pytest.approx(0.1)
    assert found.decided == pytest.approx(0.5)
    assert found.error == 0


def test_senseless_rates_are_refused():
    with pytest.raises(ValueError, match="alpha"):
        conformal.selective([0.5], [True], 0.0)
    with pytest.raises(ValueError, match="delta"):
        conformal.selective([0.5], [True], 0.1, delta=1.0)
    with pytest.raises(ValueError, match="outcomes"):
        conformal.expected([0.5], [True, False], 0.1)


def outcome(mean: float, speedup: float | None, incumbent: float = 1.0, *, sd: float | None = 0.3) -> Outcome:
    p = bins.from_normal(mean, sd or 0.3)
    forecast = Forecast(p, 0.9, "x", mean_log2=mean if sd else None, sd_log2=sd)
    return Outcome(forecast, speedup is not None, speedup, "task", incumbent)


def test_probability_of_beating_the_incumbent():
    assert conformal.p_better(outcome(1.0, None, 2.0)) == pytest.approx(0.45)
    assert conformal.p_better(outcome(1.0, None, 1.0)) > 0.89
    assert conformal.p_better(outcome(1.0, None, 2.0, sd=None)) == pytest.approx(0.45, abs=0.03)
    assert conformal.beats(outcome(0, 2.1, 2.0))
    assert not conformal.beats(outcome(0, None, 0.5))


def test_discards_and_winners():
    rng = np.random.default_rng(4)
    means = rng.normal(0, 1, 600)
    found = [outcome(float(m), 2.0 ** float(rng.normal(m, 0.3))) for m in means]
    discards, winners = conformal.discard(found, 0.05), conformal.keep_winners(found, 0.05)
    for limit in (discards, winners):
        assert limit.value is not None
        assert 0.2 < limit.decided < 0.8
    gone = [o for o in found if conformal.p_better(o) < (discards.value or 0)]
    assert sum(map(conformal.beats, gone)) / len(gone) <= 0.05
    lost = sum(conformal.beats(o) and conformal.p_better(o) < (winners.value or 0) for o in found)
    assert lost / sum(map(conformal.beats, found)) <= 0.05


def test_abstention_counts_valid_candidates_only():
    right = [outcome(0.25, 2**0.25, sd=0.05)] * 150
    failed = [outcome(0.25, None, sd=0.05)] * 50
    found = conformal.abstention([*right, *failed], 0.05)
    assert (found.outcomes, found.decided, found.error) == (150, 1.0, 0.0)
