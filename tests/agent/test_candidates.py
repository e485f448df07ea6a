"""The candidates of a conversation: which of several forecasts stands, and what a measurement is held against."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support import synthetic_executor as synthetic
from support.boards import forecast, measured, row
from support.recorded_pool import record

from forewarp.agent.candidates import Candidates
from forewarp.agent.conversation import Conversation
from forewarp.agent.settings import Settings
from forewarp.gpu_runner.formats import plan
from forewarp.tools.parts import Place
from forewarp.tools.steps import CandidateForecast

KNOWING = replace(forecast(1, median=2.0), origin="user", trials=6)
OF_A_RUN = replace(forecast(1, median=1.0), origin="r-7f3a2c", trials=0, advice="skip", reason="others promise more")


def told(*forecasts: CandidateForecast) -> Candidates:
    made = Candidates()
    for one in forecasts:
        made.apply(one)
    return made


def test_a_forecast_that_knew_less_does_not_replace_one_that_knew_more() -> None:
    found = row(told(KNOWING, OF_A_RUN), 1)
    assert found.expected == KNOWING
    assert (found.forecast.advice, found.forecast.reason) == ("skip", "others promise more")


@pytest.mark.parametrize(
    "later",
    [
        replace(OF_A_RUN, trials=6),
        replace(OF_A_RUN, by_model=True),
        replace(OF_A_RUN, device="AMD EPYC"),
    ],
    ids=["as many trials", "a model's answer", "another device"],
)
def test_a_later_forecast_that_knew_as_much_or_more_is_the_one_shown(later: CandidateForecast) -> None:
    assert row(told(KNOWING, later), 1).expected == later


def test_an_answer_of_a_model_stands_against_a_cheap_forecast_with_trials() -> None:
    asked = replace(OF_A_RUN, by_model=True)
    assert row(told(asked, KNOWING), 1).expected == asked


def test_being_turned_down_unseen_leaves_the_forecast_as_it_is() -> None:
    turned_down = replace(KNOWING, median=None, low=None, high=None, trials=9, advice="reject", reason="duplicate")
    found = row(told(KNOWING, turned_down), 1)
    assert found.expected == KNOWING
    assert found.forecast.advice == "reject"
    assert row(told(turned_down, OF_A_RUN), 1).expected == OF_A_RUN


def test_the_surprise_is_that_against_the_forecast_that_is_shown() -> None:
    made = told(KNOWING, OF_A_RUN)
    made.apply(measured(OF_A_RUN, 1, ratio=2.0))
    assert row(made, 1).measured == replace(measured(KNOWING, 1, ratio=2.0), surprise=pytest.approx(0.0))


def test_what_was_expected_stays_when_the_outcome_is_known() -> None:
    made = told(KNOWING)
    made.apply(measured(KNOWING, 1, ratio=3.0))
    made.apply(replace(KNOWING, median=3.0, trials=7))
    assert row(made, 1).expected == KNOWING
    elsewhere = replace(KNOWING, median=0.5, low=0.25, high=1.0, device="AMD EPYC", trials=0)
    made.apply(elsewhere)
    made.apply(measured(elsewhere, 1, ratio=0.5))
    assert row(made, 1).expected == elsewhere
    found = row(made, 1).measured
    assert found is not None
    assert found.surprise == pytest.approx(0.0)


async def test_a_search_leaves_the_better_forecast_of_a_candidate_in_the_table(tmp_path: Path) -> None:
    recorded = record(tmp_path, every=60)  # so few kernels that a search forecasts all of them at once
    place = Place(device="replay", pool=recorded.pool, archive=str(tmp_path / "a.db"))
    talk = Conversation(Settings(place=place, folder=tmp_path, approval="never"))
    other = list(plan.parse(synthetic.seed()).combinations())[60]
    chosen = " ".join(f"{name}={value}" for name, value in other.items())
    for line in (f"/measure toy.py toy.cpp {chosen} --insist first", "/forecast toy.py toy.cpp", "/search toy.py 1"):
        async for _ in talk.say(line):
            pass
    talk.close()
    seed = next(r for r in talk.candidates if r.forecast.kernel == synthetic.seed().sha256)
    assert (seed.expected.origin, seed.expected.trials) == ("user", 1)
    assert (seed.forecast.origin[:2], seed.forecast.trials) == ("r-", 0)
    assert seed.forecast.median != seed.expected.median


def test_a_label_says_what_a_candidate_changes() -> None:
    first = replace(forecast(1), language="cuda", tunables={"BLOCK": 256})
    other = replace(forecast(2), language="cuda", source="// other", tunables={"BLOCK": 64, "WARPS": 8})
    child = replace(forecast(3, parent=1), language="cuda", source="// child", tunables={}, note="vector loads")
    moved = replace(forecast(4, parent=1), language="cpp", source="// moved", tunables={"BLOCK": 64})
    again = replace(first, kernel="again", tunables={"BLOCK": 64})
    assert [r.label for r in told(first, other, child, moved, again)] == [
        "cuda BLOCK=256",
        "cuda BLOCK=64 WARPS=8",
        "#1: vector loads",
        "cpp #1: new text, BLOCK=64",
        "#1: BLOCK=64",
    ]
