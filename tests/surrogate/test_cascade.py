import hashlib
from collections.abc import Sequence
from dataclasses import replace

import pytest
from contracts.forecaster_contract import TARGET, TASK, ForecasterContract, failed, measured, subject
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models.function import FunctionModel

from forewarp.core import bins
from forewarp.core.errors import ModelError
from forewarp.core.protocols import Forecaster, Subject, Trial
from forewarp.core.values import Cost, Forecast, Target, Task
from forewarp.surrogate.cascade import CascadeForecaster, best_trusted
from forewarp.surrogate.llm import LlmForecaster
from forewarp.surrogate.pooling import Weights
from forewarp.surrogate.prices import Prices

WEIGHTS = Weights({"learned": 0.2, "llm": 0.8}, {"learned": 0.2, "llm": 0.8}, error_sd=0.3)


class Saying:
    """Says of each block size what it is told, counts what it is asked, and fails when told to."""

    def __init__(self, name: str, means: dict[int, float], sd: float = 0.3, dollars: float = 0.0) -> None:
        self.name, self.means, self._sd, self._dollars = name, means, sd, dollars
        self.asked: list[list[int]] = []
        self.error: ModelError | None = None
        self.p_valid = 0.9

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        blocks = [s.candidate.tunables["BLOCK"] for s in subjects]
        self.asked.append(sorted(blocks))
        if self.error is not None:
            raise self.error
        cost = Cost(0.1, 10 if self._dollars else 0, 0, self._dollars)
        return [
            Forecast(
                *(bins.from_normal(self.means[b], self._sd), self.p_valid, self.name, f"{self.name} says so"),
                cost=cost,
                mean_log2=self.means[b],
                sd_log2=self._sd,
            )
            for b in blocks
        ]


def cascade(first: Forecaster, second: Forecaster, **second_tier: object) -> CascadeForecaster:
    return CascadeForecaster(first, second, **{"weights": WEIGHTS, **second_tier})  # type: ignore[arg-type]


class Settled:
    """Says of each candidate what its text alone decides."""

    def __init__(self, name: str) -> None:
        self.name = name

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        means = [
            int(hashlib.sha256(f"{self.name} {s.candidate.sha256}".encode()).hexdigest()[:4], 16) for s in subjects
        ]
        spread = [2.0 * mean / 65535 - 1.0 for mean in means]
        return [Forecast(bins.from_normal(m, 0.5), 0.8, self.name, mean_log2=m, sd_log2=0.5) for m in spread]


class TestCascade(ForecasterContract):
    @pytest.fixture
    def forecaster(self) -> Forecaster:
        return cascade(Settled("cheap"), Settled("dear"), limit=1)


class TestCascadeWithAModelThatIsDown(ForecasterContract):
    @pytest.fixture
    def forecaster(self) -> Forecaster:
        def refuse(messages: object, info: object) -> ModelResponse:
            raise ModelHTTPError(401, "m")

        return cascade(Settled("cheap"), LlmForecaster(FunctionModel(refuse)))


BLOCKS = {16: -3.0, 48: -0.8, 32: 0.0, 64: 0.1, 128: 3.0}


def test_only_what_could_change_the_decision_goes_up() -> None:
    first, second = Saying("cheap", BLOCKS), Saying("dear", BLOCKS, dollars=0.01)
    found = cascade(first, second).forecast(TASK, TARGET, [subject(b) for b in (16, 32, 64)], [])
    assert first.asked == [[16, 32, 64]]
    assert second.asked == [[32, 64]]
    assert [len(f.tiers) for f in found] == [1, 2, 2]
    assert found[0].rationale == "learned: cheap says so. llm was not asked."
    assert "dear says so" in found[1].rationale


def test_whether_a_program_is_right_is_left_to_the_tier_that_saw_its_trials() -> None:
    cheap, dear = Saying("cheap", BLOCKS), Saying("dear", BLOCKS)
    both = cascade(cheap, dear)
    both.forecast(TASK, TARGET, [subject(32)], [])
    cheap.p_valid = 0.02
    for trial, said in ((failed("crashed"), 0.73), (failed(), 0.02)):
        (found,) = both.forecast(TASK, TARGET, [subject(32)], [Trial(subject(16), trial)])
        assert len(found.tiers) == 2
        assert found.p_valid == pytest.approx(said, abs=0.03)


def test_a_clear_winner_needs_no_second_opinion_and_leaves_nothing_to_gain() -> None:
    second = Saying("dear", BLOCKS)
    cheap = Saying("cheap", BLOCKS, sd=0.1)
    cheap.p_valid = 0.99
    cascade(cheap, second).forecast(TASK, TARGET, [subject(b) for b in BLOCKS], [])
    assert second.asked == []


def test_the_incumbent_moves_what_is_within_reach() -> None:
    second = Saying("dear", BLOCKS)
    history = [Trial(subject(500), measured(8.0))]
    cascade(Saying("cheap", BLOCKS), second).forecast(TASK, TARGET, [subject(b) for b in BLOCKS], history)
    assert second.asked == [[128]]
    assert best_trusted(history) == pytest.approx(8.0)
    assert best_trusted([]) == 1.0


def test_an_answer_must_be_worth_its_price() -> None:
    subjects = [subject(32), subject(64)]
    dear = Saying("dear", BLOCKS)
    cascade(Saying("cheap", BLOCKS), dear, expected=Cost(dollars=100.0)).forecast(TASK, TARGET, subjects, [])
    assert dear.asked == []
    cascade(Saying("cheap", BLOCKS), dear, expected=Cost(dollars=1e-3)).forecast(TASK, TARGET, subjects, [])
    assert dear.asked == [[32, 64]]


@pytest.mark.parametrize(("seconds", "asked"), [(1.0, []), (1000.0, [[32, 64]])])
def test_no_model_is_asked_where_measuring_is_cheaper(seconds: float, asked: list[list[int]]) -> None:
    target = replace(TARGET, name="NVIDIA H200", kind="cuda")
    history = [Trial(subject(500), replace(measured(1.0), device_s=seconds))]
    dear = Saying("dear", BLOCKS)
    priced = cascade(
        *(Saying("cheap", BLOCKS), dear),
        expected=Cost(3.0, 693, 50, 0.005),
        prices=Prices("", {}, {"H200": 3.6}),
    )
    found = priced.forecast(TASK, target, [subject(32), subject(64)], history)
    assert dear.asked == asked
    assert ("measuring tells more for its price" in found[0].rationale) == (not asked)


def test_a_pending_build_makes_measuring_dear() -> None:
    target = replace(TARGET, name="NVIDIA H200", kind="cuda")
    history = [Trial(subject(500), replace(measured(1.0), device_s=1.0))]
    for pending, asked in ((False, []), (True, [[32]])):
        subjects = [replace(s, build=replace(s.build, pending=pending)) for s in (subject(32), subject(64))]
        dear, table = Saying("dear", BLOCKS), Prices("", {}, {"H200": 360.0})
        asks = cascade(Saying("cheap", BLOCKS), dear, expected=Cost(1.0, 693, 50, 0.01), prices=table)
        asks.forecast(TASK, target, subjects, history)
        assert dear.asked == asked


def test_an_answer_moves_a_sure_forecast_less() -> None:
    for sd, asked in ((0.3, [[32, 64]]), (0.02, [])):
        dear = Saying("dear", BLOCKS)
        cheap = Saying("cheap", BLOCKS, sd=sd)
        cascade(cheap, dear, expected=Cost(dollars=0.1)).forecast(TASK, TARGET, [subject(32), subject(64)], [])
        assert dear.asked == asked


def test_doubt_that_all_share_is_no_reason_to_ask() -> None:
    class Together(Saying):
        def forecast(
            self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
        ) -> list[Forecast]:
            return [replace(f, shared_sd_log2=0.3) for f in super().forecast(task, target, subjects, history)]

    dear = Saying("dear", BLOCKS)
    cascade(Together("cheap", BLOCKS), dear).forecast(TASK, TARGET, [subject(32), subject(64)], [])
    assert dear.asked == []


def test_an_unpriced_device_is_compared_in_seconds() -> None:
    target = replace(TARGET, name="a card of its own", kind="cuda")
    history = [Trial(subject(500), replace(measured(1.0), device_s=1000.0))]
    dear = Saying("dear", BLOCKS)
    expected, none = Cost(3.0, dollars=0.005), Prices("", {})
    cascade(Saying("cheap", BLOCKS), dear, expected=expected, prices=none).forecast(
        TASK, target, [subject(32), subject(64)], history
    )
    assert dear.asked == [[32, 64]]
    dear.asked.clear()
    slow = cascade(Saying("cheap", BLOCKS), dear, expected=replace(expected, seconds=2000.0), prices=none)
    slow.forecast(TASK, target, [subject(32), subject(64)], history)
    assert dear.asked == []


def test_the_limit_takes_the_one_that_could_change_most() -> None:
    # The better one stays the better one if it falls a little; the other could overtake it.
    dear = Saying("dear", BLOCKS)
    cascade(Saying("cheap", BLOCKS, sd=0.6), dear, limit=1).forecast(TASK, TARGET, [subject(32), subject(48)], [])
    assert dear.asked == [[48]]


def test_what_was_paid_for_is_kept_and_costs_nothing_again() -> None:
    first, dear = Saying("cheap", dict(BLOCKS)), Saying("dear", BLOCKS, dollars=0.02)
    forecaster = cascade(first, dear)
    bought = forecaster.forecast(TASK, TARGET, [subject(64)], [])[0]
    assert bought.cost.dollars == pytest.approx(0.02)
    first.means[64] = 0.5
    again = forecaster.forecast(TASK, TARGET, [subject(64)], [Trial(subject(500), measured(1.0))])[0]
    assert dear.asked == [[64]]
    assert len(again.tiers) == 2
    assert again.cost.dollars == 0.0
    assert (again.mean_log2 or 0.0) > (bought.mean_log2 or 0.0)
    assert (forecaster.count.candidates, forecaster.count.cost.dollars) == (1, 0.02)


def test_a_later_process_takes_over_what_an_earlier_one_paid_for() -> None:
    bought = cascade(Saying("cheap", BLOCKS), Saying("dear", BLOCKS, dollars=0.02)).forecast(
        TASK, TARGET, [subject(64)], []
    )
    dear = Saying("dear", BLOCKS, dollars=0.02)
    later = cascade(Saying("cheap", BLOCKS), dear)
    later.recall(TASK, TARGET, {subject(64).candidate.sha256: bought[0]})
    found = later.forecast(TASK, TARGET, [subject(64)], [])[0]
    assert dear.asked == []
    assert found.probabilities == bought[0].probabilities
    assert found.cost.dollars == 0.0


@pytest.mark.parametrize("retryable", [True, False])
def test_a_tier_that_fails_loses_nothing_but_its_answer(retryable: bool) -> None:
    dear = Saying("dear", BLOCKS)
    dear.error = ModelError("the provider is down")
    dear.error.retryable = retryable
    forecaster = cascade(Saying("cheap", BLOCKS), dear)
    found = forecaster.forecast(TASK, TARGET, [subject(64)], [])[0]
    assert found.probabilities == bins.from_normal(0.1, 0.3)
    assert "llm gave no answer" in found.rationale
    assert "the provider is down" in found.rationale
    assert forecaster.count.failed == 1
    dear.error = None
    again = forecaster.forecast(TASK, TARGET, [subject(64)], [])[0]
    assert len(again.tiers) == (2 if retryable else 1)
