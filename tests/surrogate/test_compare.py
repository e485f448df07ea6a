import math
import random
from dataclasses import replace
from itertools import pairwise

import pytest

from forewarp.core import bins
from forewarp.core.values import Forecast
from forewarp.surrogate import compare


def normal(mean: float, sd: float = 0.3, p_valid: float = 1.0) -> Forecast:
    return Forecast(bins.from_normal(mean, sd), p_valid, "f", mean_log2=mean, sd_log2=sd)


def binned(*weights: float, p_valid: float = 1.0) -> Forecast:
    return Forecast(bins.normalise(weights), p_valid, "f")


@pytest.mark.parametrize("forecast", [normal(0.3), normal(-7.5, 0.1), binned(1, 2, 0, 0, 3, 0, 0, 1)])
def test_density_keeps_the_mass_of_every_bin(forecast: Forecast) -> None:
    mass = compare.density(forecast)
    assert math.fsum(mass) == pytest.approx(1.0)
    assert compare.chance_above(forecast, 1.0) == pytest.approx(sum(forecast.probabilities[bins.FIRST_FASTER :]))


@pytest.mark.parametrize("threshold", [0.3, 0.5, 1.0, 1.3, 3.0])
def test_chance_above_agrees_with_quantiles(threshold: float) -> None:
    p = bins.from_normal(0.2, 0.8)
    above = compare.chance_above(Forecast(p, 1.0, "f"), threshold)
    assert bins.quantile(p, 1 - above) == pytest.approx(threshold)


def test_chance_above_beyond_the_table() -> None:
    assert compare.chance_above(binned(0, 0, 0, 0, 0, 0, 0, 1), 20.0) == 0.0
    assert compare.chance_above(normal(5.0, 0.2), 20.0) == pytest.approx(1.0, abs=1e-3)


def test_gains_are_those_of_a_normal() -> None:
    import numpy as np

    found = compare.gains(normal(0.4, 0.3), 1.5, np.array([-0.2, 0.0, 0.5]))
    wanted = [bins.normal_improvement(0.4 + shift, 0.3, 1.5) for shift in (-0.2, 0.0, 0.5)]
    assert list(found) == pytest.approx(wanted, abs=2e-3)


def test_chance_faster_of_two_normals() -> None:
    a, b = normal(0.5, 0.3), normal(0.2, 0.4)
    wanted = 0.5 * math.erfc(-0.3 / 0.5 / math.sqrt(2))
    assert compare.chance_faster(a, b) == pytest.approx(wanted, abs=2e-3)
    assert compare.chance_faster(a, b) + compare.chance_faster(b, a) == pytest.approx(1.0)
    assert compare.chance_faster(a, a) == pytest.approx(0.5)


def test_quotient_of_two_normals() -> None:
    a, b = normal(0.5, 0.3, 0.9), normal(0.2, 0.4, 0.5)
    over = compare.quotient(a, b)
    assert over.mean_log2 == pytest.approx(0.3, abs=1e-3)
    assert over.sd_log2 == pytest.approx(0.5, abs=2e-3)
    assert over.p_valid == 0.9
    assert over.probabilities == pytest.approx(bins.from_normal(0.3, 0.5), abs=5e-3)
    assert sum(over.probabilities[4:]) == pytest.approx(compare.chance_faster(a, b), abs=2e-3)


def test_chances_best_against_drawing() -> None:
    rng = random.Random(1)
    spec = [(0.5, 0.3, 0.9), (0.4, 0.6, 0.7), (-0.5, 0.2, 1.0)]
    wins = [0, 0, 0]
    for _ in range(10_000):
        drawn = [rng.gauss(m, s) if rng.random() < v else -math.inf for m, s, v in spec]
        wins[max(range(3), key=lambda i: drawn[i])] += 1
    found = compare.chances_best([normal(*one) for one in spec])
    assert found == pytest.approx([w / 10_000 for w in wins], abs=0.015)
    assert sum(found) == pytest.approx(1.0)
    assert compare.chances_best([]) == []
    assert compare.chances_best([normal(0.0, p_valid=0.25)]) == pytest.approx([0.25])


def test_the_order_is_total_and_agrees_with_pairs() -> None:
    said = [normal(m, 0.4) for m in (0.1, 1.2, -0.7, 0.1)]
    order = compare.ranking(said)
    assert order == [1, 0, 3, 2]
    assert all(compare.chance_faster(said[a], said[b]) >= 0.5 for a, b in pairwise(order))
    assert compare.value(normal(1.0, p_valid=0.5)) == pytest.approx(1.0, rel=1e-2)
    assert compare.ranking([normal(1.0, p_valid=0.0), normal(-2.0)]) == [1, 0]


def test_what_is_shared_cancels() -> None:
    a, b = (replace(normal(m, 0.5), shared_sd_log2=0.4) for m in (0.5, 0.2))
    wanted = 0.5 * math.erfc(-0.3 / (0.3 * math.sqrt(2)) / math.sqrt(2))
    assert compare.chance_faster(a, b) == pytest.approx(wanted, abs=2e-3)
    assert compare.quotient(a, b).sd_log2 == pytest.approx(0.3 * math.sqrt(2), abs=2e-3)
    assert compare.chance_faster(a, normal(0.2, 0.5)) < compare.chance_faster(a, b)
    assert compare.chances_best([a, b])[0] > compare.chances_best([normal(0.5, 0.5), normal(0.2, 0.5)])[0]
