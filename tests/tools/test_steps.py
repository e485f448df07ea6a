"""What the live table is told: the same of a kernel, whether someone asked for it or a run proposed it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from support.recorded_pool import Recorded, record
from support.synthetic_executor import KnowingForecaster

from forewarp.core.protocols import Forecaster
from forewarp.surrogate.cascade import CascadeForecaster
from forewarp.surrogate.llm import LlmForecaster
from forewarp.tools.forecast_kernel import ForecastRequest, forecast_kernel
from forewarp.tools.measure_kernel import MeasureRequest, measure_kernel
from forewarp.tools.parts import Amounts, Interval, Kernel, Place
from forewarp.tools.search import SearchRequest, open_search
from forewarp.tools.steps import (
    CandidateForecast,
    CandidateMeasured,
    RunSteps,
    forecast_steps,
    measure_step,
    surprise,
)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


def place(recorded: Recorded, folder: Path) -> Place:
    return Place(device="replay", pool=recorded.pool, archive=str(folder / "a.db"))


def forecast_of(recorded: Recorded, folder: Path, *paths: str) -> list[CandidateForecast]:
    kernels = [Kernel(path=p) for p in paths]
    one = kernels[0] if len(kernels) == 1 else None
    found = forecast_kernel(
        ForecastRequest(task=recorded.task, place=place(recorded, folder), kernels=[one] if one else kernels)
    )
    return forecast_steps(found, [(Path(p).read_text(), Path(p).name) for p in paths], "user")


def test_several_are_told_in_their_order_with_their_own_texts(recorded: Recorded, tmp_path: Path) -> None:
    steps = forecast_of(recorded, tmp_path, recorded.broken, recorded.seed)
    assert [s.source for s in steps] == [Path(p).read_text() for p in (recorded.seed, recorded.broken)]
    assert [s.advice for s in steps] == ["measure", "reject"]
    assert "does not compile" in steps[1].reason


def test_one_is_told_as_it_is_among_several(recorded: Recorded, tmp_path: Path) -> None:
    [alone] = forecast_of(recorded, tmp_path, recorded.seed)
    among = forecast_of(recorded, tmp_path, recorded.seed, recorded.broken)[0]
    assert alone.median == pytest.approx(among.median)
    assert (alone.kernel, alone.advice, alone.task) == (among.kernel, among.advice, among.task)
    [broken] = forecast_of(recorded, tmp_path, recorded.broken)
    assert broken.advice == "reject"
    assert broken.median is None
    assert broken.reason


def test_a_run_tells_of_a_measurement_what_measuring_by_hand_tells(recorded: Recorded, tmp_path: Path) -> None:
    request = SearchRequest(task=recorded.task, place=place(recorded, tmp_path), budget=Amounts(measurements=4))
    with open_search(request) as job:
        steps = RunSteps(job.archive)
        told = [step for event in job.events() if (step := steps.of(event)) is not None]
        run = job.run_id
    expected = {s.kernel: s for s in told if isinstance(s, CandidateForecast)}
    assert {s.origin for s in expected.values()} == {run}
    measured = [s for s in told if isinstance(s, CandidateMeasured)]
    assert len(measured) >= 3
    for of_run in measured:
        forecast = expected[of_run.kernel]
        kernel = Kernel(source=forecast.source, tunables=forecast.tunables)
        again = measure_kernel(MeasureRequest(task=recorded.task, place=place(recorded, tmp_path / "b"), kernel=kernel))
        by_hand = measure_step(again, None)
        assert by_hand == replace(of_run, measurement=by_hand.measurement, surprise=None)


def test_a_forecast_says_how_many_measurements_it_knew(recorded: Recorded, tmp_path: Path) -> None:
    assert [s.trials for s in forecast_of(recorded, tmp_path, recorded.seed)] == [0]
    here = place(recorded, tmp_path)
    with open_search(SearchRequest(task=recorded.task, place=here, budget=Amounts(measurements=4))) as job:
        steps = RunSteps(job.archive)
        told = [step for event in job.events() if (step := steps.of(event)) is not None]
    measured = 0
    for step in told:
        if isinstance(step, CandidateMeasured):
            measured += 1
        elif not step.advice:
            assert step.trials == measured
    assert [s.trials for s in forecast_of(recorded, tmp_path, recorded.seed)] == [measured]
    assert {s.device for s in told if isinstance(s, CandidateForecast)} == {
        s.device for s in forecast_of(recorded, tmp_path, recorded.seed)
    }


@pytest.mark.parametrize("in_a_cascade", [False, True])
def test_a_forecast_says_whether_a_models_answer_is_in_it(
    recorded: Recorded, tmp_path: Path, in_a_cascade: bool
) -> None:
    def reply(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        said = {"candidate": "c1", "rationale": "", "median": 1.2, "p": [0.125] * 8, "p_valid": 0.9}
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, {"analysis": "", "forecasts": [said]})])

    model, knowing = LlmForecaster(FunctionModel(reply)), KnowingForecaster(0.6)
    asked = CascadeForecaster(knowing, model) if in_a_cascade else model
    assert told_by(asked, recorded, tmp_path).by_model
    assert not told_by(CascadeForecaster(knowing, model, limit=0), recorded, tmp_path).by_model


def told_by(forecaster: Forecaster, recorded: Recorded, folder: Path) -> CandidateForecast:
    request = ForecastRequest(task=recorded.task, place=place(recorded, folder), kernels=[Kernel(path=recorded.seed)])
    [step] = forecast_steps(forecast_kernel(request, forecaster=forecaster), [("", "")], "user")
    return step


def test_surprise_is_in_standard_deviations_of_the_forecast(recorded: Recorded, tmp_path: Path) -> None:
    [made] = forecast_of(recorded, tmp_path, recorded.seed)
    forecast = replace(made, median=2.0, low=1.0, high=4.0)
    assert surprise(forecast, Interval(ratio=4, low=4, high=4)) == pytest.approx(1.2815516)
    assert surprise(forecast, Interval(ratio=1, low=1, high=1)) == pytest.approx(-1.2815516)
    assert surprise(replace(forecast, low=None), Interval(ratio=1, low=1, high=1)) is None
    assert surprise(forecast, None) is None
