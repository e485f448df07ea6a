import math
from dataclasses import replace

import pytest

from forewarp.core import bins
from forewarp.core.values import Cost, Forecast
from forewarp.surrogate import pooling
from forewarp.surrogate.pooling import Weights, pool

EQUAL = Weights({"learned": 0.5, "llm": 0.5}, valid={"learned": 0.5, "llm": 0.5})


def normal(mean: float, sd: float = 0.5, p_valid: float = 0.8, name: str = "f") -> Forecast:
    return Forecast(bins.from_normal(mean, sd), p_valid, name, mean_log2=mean, sd_log2=sd, cost=Cost(1.0, 2, 3, 0.5))


def test_alone_a_tier_is_left_as_it_is() -> None:
    found = pool([("learned", normal(0.3))], Weights({}), "cascade", "why")
    assert (found.probabilities, found.mean_log2) == (normal(0.3).probabilities, 0.3)
    assert (found.forecaster, found.rationale, found.tiers) == ("cascade", "why", (normal(0.3),))


def test_two_that_agree_are_pooled_to_what_they_say() -> None:
    found = pool([("learned", normal(0.3)), ("llm", normal(0.3))], EQUAL, "cascade")
    assert found.probabilities == pytest.approx(normal(0.3).probabilities, abs=0.01)
    assert (found.mean_log2, found.sd_log2, found.p_valid) == pytest.approx((0.3, 0.5, 0.8))
    assert found.cost == Cost(2.0, 4, 6, 1.0)


def test_normals_are_weighed_by_their_precision() -> None:
    found = pool([("learned", normal(0.0, 0.5)), ("llm", normal(1.0, 1.0))], EQUAL, "cascade")
    assert found.mean_log2 == pytest.approx(0.2)
    assert found.sd_log2 == pytest.approx(math.sqrt(0.4))


@pytest.mark.parametrize("apart", [0.0, 0.5, 3.0])
def test_a_pool_is_no_surer_than_its_surest_tier(apart: float) -> None:
    sure, wide = normal(0.25, 0.4), normal(0.25 + apart, 1.5)
    found = pool([("learned", wide), ("llm", sure)], pooling.shipped(), "cascade")
    assert found.confidence <= sure.confidence + 1e-9
    assert (found.sd_log2 or 0.0) >= 0.4 - 1e-9


def test_hand_worked_pool_of_two() -> None:
    a, b = Forecast((0.5, 0.5, 0, 0, 0, 0, 0, 0), 0.5, "a"), Forecast((0.9, 0.1, 0, 0, 0, 0, 0, 0), 0.9, "b")
    found = pool([("learned", a), ("llm", b)], EQUAL, "cascade")
    # √(0.5·0.9) : √(0.5·0.1) = 3 : 1, but for the floor; logit(½) = 0 and logit(0.9) = ln 9, their mean is ln 3.
    assert found.probabilities[:2] == pytest.approx((0.75, 0.25), abs=0.01)
    assert found.p_valid == pytest.approx(0.75)
    assert found.mean_log2 is None


def test_no_tier_rules_a_bin_out_alone() -> None:
    sure = Forecast((1, 0, 0, 0, 0, 0, 0, 0), 1.0, "a")
    other = Forecast((0, 0, 0, 0, 0, 0, 0, 1), 0.0, "b")
    found = pool([("learned", sure), ("llm", other)], EQUAL, "cascade")
    assert found.probabilities[0] == pytest.approx(found.probabilities[7])
    assert found.p_valid == pytest.approx(0.5)


def test_moments_are_derived_from_bins_where_there_are_none() -> None:
    assert pooling.moments(Forecast((0, 0, 0, 0, 0, 0, 1, 0), 1.0, "a")) == pytest.approx((1.5, 1 / math.sqrt(12)))
    found = pool([("learned", normal(0.0)), ("llm", Forecast((0, 0, 0, 0, 0, 0, 1, 0), 1.0, "a"))], EQUAL, "c")
    assert 0 < (found.mean_log2 or 0) < 1.5


def test_an_unreadable_answer_has_no_say_but_is_paid_for() -> None:
    broken = Forecast((0.125,) * 8, 0.5, "llm", raw_sum=0.0, cost=Cost(1.0, 2, 3, 0.5))
    found = pool([("learned", normal(0.3)), ("llm", broken)], EQUAL, "cascade")
    assert (found.probabilities, found.p_valid) == (normal(0.3).probabilities, 0.8)
    assert found.cost.dollars == 1.0
    assert len(found.tiers) == 2


def test_weights_ship_with_the_package() -> None:
    shipped = pooling.shipped()
    assert set(shipped.weights) == set(shipped.valid) == {"learned", "llm"}
    assert shipped.origin


def test_a_tier_that_knows_nothing_of_a_candidate_has_no_weight() -> None:
    blank = replace(normal(0.0, 1.5, 0.5), informed=False)
    found = pool([("learned", blank), ("llm", normal(1.0))], EQUAL, "cascade")
    assert (found.probabilities, found.mean_log2, found.p_valid) == (normal(1.0).probabilities, 1.0, 0.8)
    assert (found.tiers, found.cost) == ((blank, normal(1.0)), Cost(2.0, 4, 6, 1.0))
    assert pool([("learned", blank)], EQUAL, "cascade").mean_log2 == 0.0
