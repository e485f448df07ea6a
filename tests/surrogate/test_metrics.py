import math

import numpy as np
import pytest

from forewarp.surrogate import metrics

UNIFORM = [1 / 8] * 8
SURE_5 = [0, 0, 0, 0, 0, 1, 0, 0]
HALF_4_5 = [0, 0, 0, 0, 0.5, 0.5, 0, 0]


def test_uniform_forecast():
    # Half Brier: ½·((1 − 1/8)² + 7·(1/8)²) = ½·(49 + 7)/64 = 0.4375, whatever happens.
    for y in range(8):
        assert metrics.brier([UNIFORM], [y]) == pytest.approx(0.4375)
        assert metrics.nll([UNIFORM], [y]) == pytest.approx(math.log(8))
    # RPS of the outermost bin: (1/7)·Σ_{k=1..7} (k/8)² = (1/7)·140/64 = 0.3125; of a middle one
    # (1/7)·(1 + 4 + 9 + 16 + 9 + 4 + 1)/64 = 44/448.
    assert metrics.crps([UNIFORM], [7]) == pytest.approx(0.3125)
    assert metrics.crps([UNIFORM], [0]) == pytest.approx(0.3125)
    assert metrics.crps([UNIFORM], [4]) == pytest.approx(44 / 448)


def test_sure_and_right_or_wrong():
    assert metrics.brier([SURE_5], [5]) == 0
    assert metrics.brier([SURE_5], [2]) == pytest.approx(1)
    # A sure forecast is off by one at each edge between it and the outcome: CRPS is the distance in bins over 7.
    assert [metrics.crps([SURE_5], [y]) for y in (5, 4, 0)] == pytest.approx([0, 1 / 7, 5 / 7])
    assert metrics.nll([SURE_5], [5]) == 0
    assert metrics.nll([SURE_5], [2]) == pytest.approx(-math.log(1e-12))


def test_accuracy_exact_and_within_one():
    p = [SURE_5, SURE_5, SURE_5, SURE_5]
    assert metrics.accuracy(p, [5, 4, 6, 2]) == 0.25
    assert metrics.accuracy(p, [5, 4, 6, 2], within=1) == 0.75


def test_brier_and_crps_are_proper():
    # Outcomes 4 and 5 half the time each: saying so beats saying either for sure.
    y = [4, 5]
    for score in (metrics.brier, metrics.crps):
        assert score([HALF_4_5] * 2, y) < score([SURE_5] * 2, y)


def test_ece_by_hand():
    # Confidence 0.75 three times, right once: |0.75 − 1/3|; confidence 0.55 once, right: |0.55 − 1|.
    a, b = [0.75, 0.25, 0, 0, 0, 0, 0, 0], [0.55, 0.45, 0, 0, 0, 0, 0, 0]
    expected = 0.75 * abs(0.75 - 1 / 3) + 0.25 * 0.45
    assert metrics.ece([a, a, a, b], [0, 1, 1, 0]) == pytest.approx(expected)


def test_ece_of_a_perfect_forecaster_is_zero():
    assert metrics.ece([SURE_5] * 3, [5] * 3) == 0
    assert metrics.ece([HALF_4_5] * 2, [4, 5]) == 0


def test_pairwise_accuracy_leaves_near_ties_out():
    # Pairs more than 10 % apart: (1, 2), (1.05, 2); the pair (1, 1.05) is too near. One of the two is ordered right.
    assert metrics.pairwise_accuracy([3.0, 1.0, 2.0], [1.0, 1.05, 2.0]) == 0.5
    assert metrics.pairwise_accuracy([0.0, 0.0], [1.0, 2.0]) == 0.5
    assert math.isnan(metrics.pairwise_accuracy([1.0, 2.0], [1.0, 1.09]))


def test_spearman_against_the_textbook():
    # IQ against hours of TV per week, the example of Wikipedia's article: ρ = −29/165 = −0.17575…
    iq = [106, 100, 86, 101, 99, 103, 97, 113, 112, 110]
    hours = [7, 27, 2, 50, 28, 29, 20, 12, 6, 17]
    assert metrics.spearman(iq, hours) == pytest.approx(-29 / 165)
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5/√(4.5·5).
    assert metrics.spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / math.sqrt(22.5))
    assert math.isnan(metrics.spearman([1, 1, 1], [1, 2, 3]))


def test_auroc_by_counting_pairs():
    # Positives 0.8, 0.4 against negatives 0.6, 0.4: won 0.8>0.6, 0.8>0.4; tied 0.4=0.4; lost 0.4<0.6.
    assert metrics.auroc([0.8, 0.4, 0.6, 0.4], [True, True, False, False]) == pytest.approx(2.5 / 4)
    assert math.isnan(metrics.auroc([0.1, 0.2], [True, True]))


def test_risk_coverage_and_its_area():
    coverages, risks = metrics.risk_coverage([0.9, 0.8, 0.7, 0.6], [0, 0, 1, 1])
    assert coverages == pytest.approx([0.25, 0.5, 0.75, 1])
    assert risks == pytest.approx([0, 0, 1 / 3, 0.5])
    assert metrics.aurc([0.9, 0.8, 0.7, 0.6], [0, 0, 1, 1]) == pytest.approx((1 / 3 + 1 / 2) / 4)


def test_equal_confidence_is_worth_the_mean_loss():
    for losses in ([0, 0, 1, 1], [1, 1, 0, 0]):
        assert metrics.aurc([0.5] * 4, losses) == pytest.approx(0.5)


def test_reliability_table():
    table = metrics.reliability([0.1, 0.05, 0.95, 1.0, 0.0], [0, 1, 1, 1, 0])
    assert [(b.low, b.count) for b in table] == [(0.0, 3), (0.9, 2)]
    assert table[0].forecast == pytest.approx(0.05)
    assert table[0].observed == pytest.approx(1 / 3)
    assert table[1].observed == 1


def test_coverage_counts_the_ends_as_inside():
    assert metrics.coverage([1, 1, 1], [2, 2, 2], [2.0, 0.9, 1.5]) == pytest.approx(2 / 3)


def test_recovery():
    speedups = [1.0, 2.0, 4.0, 3.0, 0.5, 0.1, 0.2, 0.3, 0.4, 0.6]
    assert metrics.recovery(speedups, speedups) == 1
    assert metrics.recovery([0, 1, 0.5, 2, 0, 0, 0, 0, 0, 0], speedups, share=0.1) == 0.75
    assert metrics.recovery([0, 1, 0.5, 2, 0, 0, 0, 0, 0, 0], speedups, share=0.2) == 0.75
    assert metrics.recovery([0, 1, 0.5, 2, 0, 0, 0, 0, 0, 0], speedups, share=0.3) == 1


def test_recovery_of_a_constant_score_is_that_of_chance():
    # One of four at random: the mean; two of four: maxima of the six pairs of 1, 2, 3, 4 have mean 20/6.
    assert metrics.recovery([0] * 4, [1, 2, 3, 4], share=0.25) == pytest.approx(2.5 / 4)
    assert metrics.recovery([0] * 4, [4, 2, 1, 3], share=0.5) == pytest.approx(20 / 6 / 4)


def test_invalid_candidates_recover_nothing():
    assert metrics.recovery([9.0, 1.0], [math.nan, 2.0], share=0.5) == 0
    assert math.isnan(metrics.recovery([], []))


def test_bins_and_shapes():
    assert metrics.bins_of([0.1, 1.0, 4.0]).tolist() == [0, 4, 7]
    with pytest.raises(ValueError, match="1 forecasts, but 2 outcomes"):
        metrics.brier([UNIFORM], [1, 2])
    nothing = np.zeros((0, 8))
    assert all(math.isnan(m(nothing, [])) for m in (metrics.brier, metrics.crps, metrics.nll, metrics.ece))
