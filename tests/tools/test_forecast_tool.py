from __future__ import annotations

import pytest
from support import synthetic_executor as synthetic

from forewarp.archive.store import Archive, default_path
from forewarp.core import bins
from forewarp.core.errors import CandidateError, ModelError, TaskError, UsageError
from forewarp.core.protocols import Executor
from forewarp.core.values import Task
from forewarp.tools.forecast_kernel import ForecastRequest, ForecastResult, forecast_kernel
from forewarp.tools.measure_kernel import MeasureRequest, measure_kernel
from forewarp.tools.parts import Kernel, Place
from forewarp.tools.session import Executors


class Synthetic(Executors):
    """Always the synthetic device."""

    def __init__(self) -> None:
        super().__init__()
        self.executor = synthetic.SyntheticExecutor()

    def get(self, place: Place, task: Task) -> Executor:
        return self.executor


def forecast(kernel: Kernel, **fields: object) -> ForecastResult:
    return forecast_kernel(ForecastRequest(task="softmax", kernel=kernel, **fields), executors=Synthetic())  # type: ignore[arg-type]


def measure(**tunables: int) -> None:
    kernel = Kernel(source=synthetic.SOURCE, tunables=tunables)
    measure_kernel(MeasureRequest(task="softmax", kernel=kernel), executors=Synthetic())


def test_says_that_it_is_the_broad_prior_while_nothing_was_measured() -> None:
    found = forecast(Kernel(source=synthetic.SOURCE))
    assert found.recommendation == "measure"
    assert found.trials == 0
    assert "broad prior" in found.summary
    assert found.forecast is not None
    assert sum(b.probability for b in found.forecast.distribution) == pytest.approx(1.0)
    assert [b.label for b in found.forecast.distribution] == list(bins.LABELS)
    assert next(iter(type(found).model_fields)) == "summary"


def test_learns_from_what_was_measured_and_compares_with_the_best() -> None:
    for tile in (16, 32, 64, 128, 256):
        measure(TILE=tile, UNROLL=4, WIDTH=2)
    near = forecast(Kernel(source=synthetic.SOURCE, tunables={"TILE": 128, "UNROLL": 4, "WIDTH": 4}))
    assert near.trials == 5
    assert "broad prior" not in near.summary
    assert near.best_so_far is not None
    assert near.best_so_far.ratio == pytest.approx(4.0, rel=0.1)
    assert near.p_better is not None
    assert near.forecast is not None
    assert near.p_better < near.forecast.p_faster


def test_a_program_that_was_measured_is_not_worth_measuring_again() -> None:
    measure(TILE=32)
    measure(TILE=16)
    commented = synthetic.SOURCE.replace('extern "C"', '// no change\nextern "C"')
    for source in (synthetic.SOURCE, commented):
        again = forecast(Kernel(source=source, tunables={"TILE": 16}))
        assert again.recommendation == "skip"
        assert again.already_measured is not None
        assert "measured already" in again.reason


def test_a_kernel_that_does_not_compile_is_an_answer() -> None:
    found = forecast(Kernel(source=synthetic.SOURCE + "#error\n"))
    assert (found.status, found.recommendation, found.forecast) == ("compile_error", "skip", None)
    assert "no such instruction" in found.log
    assert "does not compile" in found.summary


def test_forecasting_measures_nothing() -> None:
    kept = Synthetic()
    forecast_kernel(ForecastRequest(task="softmax", kernel=Kernel(source=synthetic.SOURCE)), executors=kept)
    assert kept.executor.measured == []
    with Archive(default_path()) as archive:
        assert archive.measurements() == []


@pytest.mark.parametrize(
    ("kernel", "fields", "error", "says"),
    [
        (Kernel(), {}, UsageError, "path or as source"),
        (Kernel(path="a.cpp", source="b"), {}, UsageError, "exactly one"),
        (Kernel(path="no-such.cpp"), {}, CandidateError, "no-such.cpp"),
        (Kernel(source="x = 1"), {}, CandidateError, "language"),
        (Kernel(source=synthetic.SOURCE, tunables={"SPEED": 9}), {}, CandidateError, "SPEED"),
        (Kernel(source="class ModelNew: ...", language="triton"), {}, CandidateError, "launch plan"),
        (Kernel(source=synthetic.SOURCE, language="cuda"), {}, CandidateError, "needs"),
        (Kernel(source=synthetic.SOURCE), {"forecaster": "llm"}, UsageError, "--model"),
        (Kernel(source=synthetic.SOURCE), {"model": "anthropic:x"}, ModelError, "ANTHROPIC_API_KEY"),
        (Kernel(source=synthetic.SOURCE), {"base_url": "http://127.0.0.1:1/v1"}, UsageError, "--model"),
    ],
)
def test_bad_requests_say_what_to_change(
    kernel: Kernel, fields: dict[str, object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        forecast(kernel, **fields)


def test_an_unknown_task_lists_the_known_ones() -> None:
    request = ForecastRequest(task="softmux", kernel=Kernel(source=synthetic.SOURCE))
    with pytest.raises(TaskError, match=r"bundled tasks: .*softmax"):
        forecast_kernel(request, executors=Synthetic())
