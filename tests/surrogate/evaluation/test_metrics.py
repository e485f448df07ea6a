import math

import numpy as np
import pytest

from forewarp.surrogate.evaluation import metrics

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


def test_pair_outcomes_leave_near_ties_out():
    # Pairs more than 10 % apart: (1, 2), (1.05, 2); the pair (1, 1.05) is too near. One of the two is ordered right.
    assert metrics.pair_outcomes([3.0, 1.0, 2.0], [1.0, 1.05, 2.0]).mean() == 0.5
    assert metrics.pair_outcomes([0.0, 0.0], [1.0, 2.0]).tolist() == [0.5]
    assert len(metrics.pair_outcomes([1.0, 2.0], [1.0, 1.09])) == 0


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


def random_rows(rows: int = 300, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(8, 0.4), size=rows)
    y = np.array([rng.choice(8, p=0.7 * row + 0.3 / 8) for row in p])
    return p, y


def test_scores_agree_with_scikit_learn_and_scipy():
    from scipy import stats
    from sklearn import metrics as sk

    p, y = random_rows()
    labels = list(range(8))
    assert metrics.nll(p, y) == pytest.approx(sk.log_loss(y, p, labels=labels))
    assert metrics.brier(p, y) == pytest.approx(sk.brier_score_loss(y, p, labels=labels, scale_by_half=True))
    assert metrics.accuracy(p, y) == pytest.approx(sk.accuracy_score(y, p.argmax(axis=1)))
    right = p.argmax(axis=1) == y
    assert metrics.auroc(p.max(axis=1), right) == pytest.approx(sk.roc_auc_score(right, p.max(axis=1)))
    assert metrics.event_brier(p[:, 0], y == 0) == pytest.approx(sk.brier_score_loss(y == 0, p[:, 0]))
    assert metrics.entropy(p) == pytest.approx(float(np.mean(stats.entropy(p, axis=1))))
    rounded = p[:, 0].round(1)
    assert metrics.spearman(rounded, y) == pytest.approx(stats.spearmanr(rounded, y).statistic)


def test_crps_is_the_mean_of_brier_scores_of_the_edges():
    from sklearn.metrics import brier_score_loss

    p, y = random_rows()
    edges = [brier_score_loss(y <= k, np.clip(p[:, : k + 1].sum(axis=1), 0, 1)) for k in range(7)]
    assert metrics.crps(p, y) == pytest.approx(np.mean(edges))


def test_crps_is_the_energy_form():
    # E|X − y| − ½·E|X − X'| for X, X' from the forecast (Gneiting & Raftery 2007, eq. 21), over seven edges.
    p, y = random_rows(40)
    apart = np.abs(np.subtract.outer(np.arange(8), np.arange(8)))
    energy = [row @ apart[:, k] - 0.5 * row @ apart @ row for row, k in zip(p, y, strict=True)]
    assert metrics.crps(p, y) == pytest.approx(np.mean(energy) / 7)


def test_event_ece_against_scikit_learns_calibration_curve():
    from sklearn.calibration import calibration_curve

    p, y = random_rows(500)
    said, happened = p[:, 0], (y == 0).astype(int)
    observed, forecast = calibration_curve(happened, said, n_bins=10)
    counts = np.histogram(said, bins=10, range=(0, 1))[0]
    expected = np.sum(counts[counts > 0] * np.abs(observed - forecast)) / len(y)
    assert metrics.event_ece(said, happened) == pytest.approx(expected)
    assert math.isnan(metrics.event_ece([], []))


def test_recovery_leaves_what_was_missed():
    speedups = [1.0, 2.0, 4.0, 3.0]
    assert metrics.recovery([0, 1, 2, 3], speedups, share=0.25) == pytest.approx(3 / 4)
    assert metrics.recovery([3, 1, 2, 0], [math.nan, 2.0, 4.0, 3.0], share=0.25) == 0


def test_near_best_leaves_invalid_candidates_out():
    assert metrics.near_best([1.0, 2.0, 1.92, 1.9, math.nan, 0.0]).tolist() == [False, True, True, False, False, False]
    assert not metrics.near_best([0.0, math.nan]).any()


def test_discards_by_hand():
    # The top 40 % of five are the two of scores 5 and 4. Wanted: scores 5, 3 and 1: two of three are lost.
    scores, wanted = [5, 4, 3, 2, 1], [True, False, True, False, True]
    assert metrics.kept(scores, 0.4).tolist() == [1, 1, 0, 0, 0]
    assert metrics.false_discard_rate(scores, wanted, 0.4) == pytest.approx(2 / 3)
    assert metrics.miss_rate(scores, wanted, 0.4) == 0
    assert metrics.miss_rate(scores, [False, False, True, False, True], 0.4) == 1
    assert math.isnan(metrics.false_discard_rate(scores, [False] * 5, 0.4))
    assert math.isnan(metrics.miss_rate(scores, [False] * 5, 0.4))


def test_discards_by_ties_are_those_of_every_order():
    from itertools import permutations

    scores, wanted = [3, 2, 2, 2, 1], [False, True, True, False, True]
    lost: list[float] = []
    missed: list[bool] = []
    for order in permutations(range(5)):
        ranked = sorted(order, key=lambda i: -scores[i])  # stable: ties stand in the order of the permutation
        measured, dropped = ranked[:2], ranked[2:]
        lost.append(sum(wanted[i] for i in dropped) / sum(wanted))
        missed.append(not any(wanted[i] for i in measured))
    assert metrics.false_discard_rate(scores, wanted, 0.4) == pytest.approx(np.mean(lost))
    assert metrics.miss_rate(scores, wanted, 0.4) == pytest.approx(np.mean(missed))


def test_recovery_falls_and_rises_with_the_score():
    rng = np.random.default_rng(1)
    speedups = np.exp(rng.normal(size=100))
    shares = (0.01, 0.05, 0.1, 0.2, 0.5, 1.0)
    found = [metrics.recovery(-speedups, speedups, share) for share in shares]
    assert found == sorted(found)
    assert found[-1] == 1
    assert found[0] == pytest.approx(speedups.min() / speedups.max())
