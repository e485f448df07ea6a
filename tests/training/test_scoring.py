"""What a reply earns, and the figures of a set of them."""

from __future__ import annotations

import math

import pytest
import warm_start

from forewarp.surrogate import rewards
from forewarp.training import scoring
from forewarp.training.config import Reward

SURE = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
EVEN = [0.125] * 8
ONE = warm_start.arguments(warm_start.reply([(1.2, SURE, 0.9)]))
TWO = warm_start.arguments(warm_start.reply([(1.2, SURE, 0.9), (1.0, EVEN, 0.2)]))
PLAIN = Reward(shape="brier", validity=0.0)


def test_a_reply_earns_its_terms() -> None:
    assert scoring.score(ONE, [1.2], PLAIN).reward == pytest.approx(2.0)
    assert scoring.score(ONE, [3.0], PLAIN).reward == pytest.approx(0.0)
    both = scoring.score(TWO, [1.2, 3.0], PLAIN)
    even = 1 - (7 * 0.125**2 + 0.875**2) / 2
    assert both.terms == {"parsed": 1.0, "correctness": 0.5, "score": pytest.approx((1 + even) / 2)}
    assert both.reward == pytest.approx(0.5 + (1 + even) / 2)


def test_bins_of_invalid_candidates_are_not_judged_but_their_validity_is() -> None:
    weighed = Reward(shape="brier", validity=0.5)
    found = scoring.score(TWO, [1.2, None], weighed)
    assert found.reward == pytest.approx(2.0 + 0.5 * (1 - 0.1**2 + 1 - 0.2**2) / 2)
    assert scoring.score(ONE, [None], PLAIN).reward is None
    assert scoring.score(ONE, [None], weighed).reward == pytest.approx(0.5 * (1 - 0.9**2))


@pytest.mark.parametrize("text", ["", "no", '{"forecasts": []}', ONE[:-20], ONE.replace("c1", "c2")])
def test_what_cannot_be_read_earns_nothing(text: str) -> None:
    found = scoring.score(text, [1.2], PLAIN)
    assert (found.reward, found.terms, found.forecasts) == (rewards.FAILED, {"parsed": 0.0}, ())


def test_words_around_a_reply_do_not_matter() -> None:
    assert scoring.score(f"<think>It may be 2x.</think>\n{ONE}\nDone.", [1.2], PLAIN).reward == pytest.approx(2.0)


def test_figures_take_an_unread_reply_as_uniform() -> None:
    asked = [[1.2], [1.2], [None]]
    scored = [scoring.score(t, s, PLAIN) for t, s in zip((ONE, "?", ONE), asked, strict=True)]
    found = scoring.figures(scored, asked, "brier", EVEN)
    assert found["parsed"] == pytest.approx(2 / 3)
    assert found["accuracy"] == 0.5
    assert found["confidence"] == pytest.approx((1 + 0.125) / 2)
    assert found["brier"] == pytest.approx((7 * 0.125**2 + 0.875**2) / 4)
    plain = rewards.reward(EVEN, 1.2, "brier")
    assert found["skill"] == pytest.approx(((2.0 + 0.0) / 2 - plain) / (2.0 - plain))
    assert math.isnan(scoring.figures([], [], "brier", EVEN)["parsed"])
