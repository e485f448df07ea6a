"""What every forecaster keeps to, and the values that its tests are made of."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import replace

import pytest

from forewarp.core.protocols import Forecaster, Subject, Trial
from forewarp.core.values import (
    Build,
    Candidate,
    Cost,
    Evidence,
    Forecast,
    Measurement,
    Status,
    Target,
    Task,
    Verdict,
    Workload,
)

TASK = Task(
    "scale",
    "Scale a matrix",
    "class Model: ...\ndef get_inputs(): ...\ndef get_init_inputs(): ...\n",
    {"cpu": (Workload("small", {"N": 1024}), Workload("odd", {"N": 1021})), "cuda": ()},
)
TARGET = Target("a CPU", "cpu", "x86-64", 8, memory_bandwidth=2e11, fp32_flops=1e12, l2_bytes=32 << 20)

PLAN = """/*forewarp
inputs = ["x"]
outputs = ["y"]
[tunables]
BLOCK = [64, 16, 32, 128, 256]   # a comment of the plan
[[launch]]
kernel = "scale"
args = ["x", "y"]
*/
"""


def source(body: str = "y[i] = 2 * x[i];") -> str:
    return f'{PLAN}extern "C" void scale(const float* x, float* y) {{ {body} }}\n'


def subject(block: int = 64, body: str = "y[i] = 2 * x[i];", facts: Mapping[str, float] | None = None) -> Subject:
    evidence = Evidence({"instructions": 100.0 + block} if facts is None else facts)
    return Subject(Candidate(source(body), "cpp", {"BLOCK": block}), Build("ok", 0.1, evidence=evidence))


def measured(speedup: float, half_width: float = 0.02) -> Measurement:
    low, high = speedup * 2**-half_width, speedup * 2**half_width
    verdict: Verdict = "faster" if low > 1 else "slower" if high < 1 else "tie"
    return Measurement("ok", verdict, "a CPU", "T0", speedup=speedup, low=low, high=high)


def failed(status: Status = "incorrect", log: str = "max error 3.2") -> Measurement:
    return Measurement(status, "incorrect" if status == "incorrect" else "failed", "a CPU", "T0", log=log)


def without_cost(forecast: Forecast) -> Forecast:
    return replace(forecast, cost=Cost(), tiers=tuple(map(without_cost, forecast.tiers)))


class ForecasterContract:
    """Derive a class named `Test…` and give it a fixture `forecaster`."""

    @pytest.fixture
    def forecaster(self) -> Forecaster:
        raise NotImplementedError

    @pytest.fixture
    def history(self) -> list[Trial]:
        good = [Trial(subject(b), measured(s)) for b, s in ((16, 0.8), (32, 1.1), (64, 1.6), (128, 1.5))]
        return [*good, Trial(subject(256), failed()), Trial(subject(32, "y[i] = x[i] + x[i];"), measured(1.3))]

    def test_is_a_forecaster(self, forecaster: Forecaster) -> None:
        assert isinstance(forecaster, Forecaster)
        assert forecaster.name

    def test_one_forecast_per_subject_in_order(self, forecaster: Forecaster, history: list[Trial]) -> None:
        subjects = [subject(16), subject(48), subject(256), subject(16)]
        together = forecaster.forecast(TASK, TARGET, subjects, history)
        assert len(together) == 4
        assert without_cost(together[0]) == without_cost(together[3])
        backwards = forecaster.forecast(TASK, TARGET, subjects[::-1], history)
        for one, other in zip(together, backwards[::-1], strict=True):
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6)

    def test_is_a_distribution(self, forecaster: Forecaster, history: list[Trial]) -> None:
        for forecast in forecaster.forecast(TASK, TARGET, [subject(16), subject(500)], history):
            assert all(0 <= p <= 1 for p in forecast.probabilities)
            assert math.fsum(forecast.probabilities) == pytest.approx(1)
            assert 0 <= forecast.p_valid <= 1
            assert forecast.forecaster == forecaster.name

    def test_same_question_same_answer(self, forecaster: Forecaster, history: list[Trial]) -> None:
        first = forecaster.forecast(TASK, TARGET, [subject(16), subject(48)], history)
        second = forecaster.forecast(TASK, TARGET, [subject(16), subject(48)], history)
        assert [without_cost(f) for f in first] == [without_cost(f) for f in second]

    def test_no_history(self, forecaster: Forecaster) -> None:
        assert len(forecaster.forecast(TASK, TARGET, [subject(16), subject(32)], [])) == 2

    def test_history_of_failures_only(self, forecaster: Forecaster) -> None:
        trials = [Trial(subject(b), failed()) for b in (16, 32, 64)]
        assert len(forecaster.forecast(TASK, TARGET, [subject(128)], trials)) == 1

    def test_no_subjects(self, forecaster: Forecaster, history: list[Trial]) -> None:
        assert forecaster.forecast(TASK, TARGET, [], history) == []
        assert forecaster.forecast(TASK, TARGET, [], []) == []

    def test_leaves_its_arguments_alone(self, forecaster: Forecaster, history: list[Trial]) -> None:
        subjects = [subject(16), subject(48)]
        before = copy.deepcopy((subjects, history))
        forecaster.forecast(TASK, TARGET, subjects, history)
        assert (subjects, history) == before

    def test_subjects_without_facts_or_tunables(self, forecaster: Forecaster, history: list[Trial]) -> None:
        bare = Subject(Candidate("class ModelNew: ...", "python"), Build("ok", 0.0))
        assert len(forecaster.forecast(TASK, TARGET, [bare], history)) == 1
        assert len(forecaster.forecast(TASK, TARGET, [bare], [])) == 1
