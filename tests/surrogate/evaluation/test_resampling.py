import math

import numpy as np
import pytest
from scipy import stats

from forewarp.surrogate.evaluation.resampling import Resampled, cluster_draws, percentile_interval, resample


def mean_of(values):
    return lambda picks: float(np.mean(np.asarray(values)[picks]))


def test_a_draw_takes_whole_clusters():
    draws = cluster_draws(["a", "b", "a", "c"], resamples=200, seed=3)
    assert len(draws) == 200
    for picks in draws:
        counts = np.bincount(picks, minlength=4)
        assert counts[0] == counts[2]
        assert counts[0] + counts[1] + counts[3] == 3
    assert any(np.bincount(d, minlength=4)[0] == 3 for d in draws)
    assert not cluster_draws([], 10)


def test_same_seed_same_draws():
    one, two, other = (cluster_draws(list("abcde"), 20, seed) for seed in (1, 1, 2))
    assert all((a == b).all() for a, b in zip(one, two, strict=True))
    assert any((a != b).any() for a, b in zip(one, other, strict=True))


def test_many_clusters_agree_with_scipys_percentile_bootstrap():
    values = np.random.default_rng(0).exponential(size=400)
    names = [str(i) for i in range(len(values))]
    found = resample(mean_of(values), names, cluster_draws(names, 4000)).estimate()
    expected = stats.bootstrap((values,), np.mean, n_resamples=4000, method="percentile", rng=1).confidence_interval
    assert found.value == pytest.approx(values.mean())
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.015)


def test_clusters_widen_the_interval_of_rows_that_go_together():
    # Ten clusters of ten equal rows hold no more than ten rows do.
    values = np.repeat(np.random.default_rng(0).normal(size=10), 10)
    together = [str(i // 10) for i in range(100)]
    apart = [str(i) for i in range(100)]
    wide = resample(mean_of(values), together, cluster_draws(together)).estimate()
    narrow = resample(mean_of(values), apart, cluster_draws(apart)).estimate()
    assert wide.high - wide.low > 2.5 * (narrow.high - narrow.low)


def test_the_expansion_is_hesterbergs():
    # Hesterberg 2015: for n = 10 the nominal 2.5 % of a 95 % interval become Φ(−√(10/9) · 2.2622) = 0.86 %.
    level = stats.norm.cdf(-math.sqrt(10 / 9) * stats.t.ppf(0.975, 9))
    assert level == pytest.approx(0.0086, abs=1e-4)
    draws = np.arange(100_001) / 100_000
    assert percentile_interval(draws, 10) == pytest.approx((level, 1 - level), abs=1e-5)


def test_seven_clusters_are_covered_about_as_often_as_promised():
    rng = np.random.default_rng(5)
    inside, plain = 0, 0
    for _ in range(400):
        values = rng.normal(size=7)
        draws = values[rng.integers(0, 7, size=(1000, 7))].mean(axis=1)
        low, high = percentile_interval(draws, 7)
        inside += low <= 0 <= high
        low, high = np.quantile(draws, [0.025, 0.975])
        plain += low <= 0 <= high
    assert 0.92 <= inside / 400 <= 0.98
    assert plain / 400 < 0.92


def test_paired_differences_take_the_common_part_out():
    rng = np.random.default_rng(0)
    hard = rng.normal(scale=5.0, size=30)
    names = [str(i) for i in range(30)]
    draws = cluster_draws(names, 500)
    one, two = (resample(mean_of(hard + shift), names, draws) for shift in (1.0, rng.normal(scale=0.1, size=30)))
    apart = one.minus(two).estimate()
    assert apart.value == pytest.approx(1.0, abs=0.1)
    assert apart.high - apart.low < 0.2
    assert one.estimate().high - one.estimate().low > 2
    with pytest.raises(ValueError, match="same draws"):
        one.minus(Resampled(0.0, np.zeros(3), 30))


def test_no_interval_where_there_is_none():
    assert all(math.isnan(v) for v in percentile_interval(np.ones(10), 1))
    assert all(math.isnan(v) for v in percentile_interval(np.array([1.0, math.nan, math.nan]), 5))
    assert percentile_interval(np.array([1.0, 1.0, math.nan]), 5) == (1.0, 1.0)
