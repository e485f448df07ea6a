from __future__ import annotations

from pathlib import Path

import pytest
from support import synthetic_executor as synthetic

from forewarp import tasks as bundled
from forewarp.archive.store import Archive, default_path
from forewarp.core import bins
from forewarp.core.errors import CandidateError, ModelError, TaskError, UsageError
from forewarp.core.protocols import Executor
from forewarp.core.values import Target, Task
from forewarp.tools.forecast_kernel import ForecastRequest, ForecastResult, forecast_kernel
from forewarp.tools.measure_kernel import MeasureRequest, measure_kernel
from forewarp.tools.parts import Kernel, Place
from forewarp.tools.requests import checked
from forewarp.tools.session import Executors


class Synthetic(Executors):
    """Always the synthetic device."""

    def __init__(self) -> None:
        super().__init__()
        self.executor = synthetic.SyntheticExecutor()

    def get(self, place: Place, task: Task) -> Executor:
        return self.executor

    def compiler(self, place: Place, target: Target) -> Executor:
        return synthetic.SyntheticExecutor(target)


def forecast(kernel: Kernel, **fields: object) -> ForecastResult:
    return forecast_kernel(ForecastRequest(task="softmax", kernels=[kernel], **fields), executors=Synthetic())  # type: ignore[arg-type]


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


def rank(*kernels: Kernel, **fields: object) -> ForecastResult:
    request = ForecastRequest(task="softmax", kernels=list(kernels), **fields)  # type: ignore[arg-type]
    return forecast_kernel(request, executors=Synthetic())


def settings(*tiles: int) -> list[Kernel]:
    return [Kernel(source=synthetic.SOURCE, tunables={"TILE": t, "UNROLL": 4, "WIDTH": 2}) for t in tiles]


def test_several_are_ranked_in_one_call() -> None:
    for tile in (16, 32, 64, 256, 512):
        measure(TILE=tile, UNROLL=4, WIDTH=2)
    broken = Kernel(source=synthetic.SOURCE + "#error\n")
    found = rank(broken, *settings(16, 128), Kernel(path="no-such.cpp"), *settings(128))
    assert [line.position for line in found.ranking] == [3, 2, 1, 4, 5]
    first, second, *others = found.ranking
    assert found.kernel == first.kernel
    assert found.forecast == first.forecast
    assert first.p_best is not None
    assert second.p_best is not None
    assert first.p_best > second.p_best
    assert first.p_faster_than[1] + second.p_faster_than[0] == pytest.approx(1.0, abs=1e-3)
    assert (first.p_faster_than[0], second.p_faster_than[1]) == (0.5, 0.5)
    assert (second.recommendation, second.already_measured is not None) == ("skip", True)
    assert [line.problem.partition(":")[0] for line in others] == [
        "it does not compile",
        "no-such.cpp cannot be read",
        "it is the same kernel as number 3",
    ]
    assert "3 not ranked" in found.summary
    assert [t.candidates for t in found.tiers] == [2]


def test_kernels_that_the_forecast_cannot_tell_apart_are_not_ranked_in_words() -> None:
    found = rank(*settings(16, 64))
    assert found.trials == 0
    assert "cannot tell 2 kernels apart" in found.summary
    assert "Most promising" not in found.summary


def test_ranking_kernels_of_which_none_compiles_says_so() -> None:
    found = rank(Kernel(source=synthetic.SOURCE + "#error\n"), Kernel(source=synthetic.SOURCE + "#error 2\n"))
    assert (found.status, found.forecast, found.recommendation) == ("compile_error", None, "skip")
    assert len(found.ranking) == 2
    with pytest.raises(CandidateError, match="none of the kernels"):
        rank(Kernel(path="no-such.cpp"), Kernel(path="nor-such.cpp"))


def test_against_another_kernel() -> None:
    for tile in (16, 32, 64, 256, 512):
        measure(TILE=tile, UNROLL=4, WIDTH=2)
    slow, fast = settings(16, 128)
    found = forecast(fast, against=slow)
    alone = forecast(fast)
    assert found.anchor == "reference" or len(found.anchor) == 64
    assert found.anchor != alone.anchor == "reference"
    assert found.forecast is not None
    assert alone.forecast is not None
    # The slow one was measured at S = 2^(2 − 0.25·9) = 0.84.
    assert found.forecast.median.ratio == pytest.approx(alone.forecast.median.ratio / 0.84, rel=0.1)
    assert found.p_better == pytest.approx(found.forecast.p_faster, abs=1e-6)
    assert "over kernel" in found.summary
    itself = forecast(fast, against=fast)
    assert (itself.recommendation, itself.p_better) == ("skip", 0.0)
    assert "same program as kernel" in itself.reason
    assert itself.forecast is not None
    assert 0.99 < itself.forecast.median.low <= itself.forecast.median.high < 1.01
    with pytest.raises(CandidateError, match="forecast against does not compile"):
        forecast(fast, against=Kernel(source=synthetic.SOURCE + "#error\n"))


def test_says_what_it_rests_on_and_who_was_asked() -> None:
    measure(TILE=16)
    found = forecast(Kernel(source=synthetic.SOURCE))
    assert any("1 trial of this task" in used for used in found.evidence_used)
    assert found.evidence_used[-1] == "the answers of learned"
    assert [(t.tier, t.candidates) for t in found.tiers] == [("learned", 1)]
    assert found.cost.seconds > 0


def test_a_target_has_a_history_of_its_own() -> None:
    measure(TILE=16)
    kept = Synthetic()
    request = ForecastRequest(task="softmax", kernels=[Kernel(source=synthetic.SOURCE)], target="h200")
    with pytest.raises(CandidateError, match="does not run on NVIDIA H200"):
        forecast_kernel(request, executors=kept)
    source = synthetic.SOURCE.replace('kernel = "go"', 'kernel = "go"\ngrid = [1]\nblock = [32]')
    cuda = request.model_copy(update={"kernels": [Kernel(source=source, language="cuda")]})
    found = forecast_kernel(cuda, executors=kept)
    assert (found.device.name, found.trials) == ("NVIDIA H200", 0)
    assert forecast(Kernel(source=synthetic.SOURCE)).trials == 1
    with pytest.raises(UsageError, match="unknown"):
        forecast(Kernel(source=synthetic.SOURCE), target="h2000")


@pytest.mark.slow
def test_a_real_target_that_is_not_here() -> None:
    seed = Path(bundled.__file__).parent / "softmax" / "seeds" / "softmax.cu"
    found = forecast_kernel(ForecastRequest(task="softmax", kernels=[Kernel(path=str(seed))], target="h200"))
    assert (found.status, found.device.name) == ("ok", "NVIDIA H200")
    assert found.evidence.facts["registers"] > 0


def test_a_forecast_needs_a_kernel() -> None:
    with pytest.raises(UsageError, match="kernels is"):
        checked(ForecastRequest, task="softmax", kernels=[])


def test_forecasting_measures_nothing() -> None:
    kept = Synthetic()
    forecast_kernel(ForecastRequest(task="softmax", kernels=[Kernel(source=synthetic.SOURCE)]), executors=kept)
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
        (Kernel(source=synthetic.SOURCE), {"forecaster": "cascade"}, UsageError, "--model"),
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
    request = ForecastRequest(task="softmux", kernels=[Kernel(source=synthetic.SOURCE)])
    with pytest.raises(TaskError, match=r"bundled tasks: .*softmax"):
        forecast_kernel(request, executors=Synthetic())


MODULE = """
import torch, triton, triton.language as tl

@triton.jit
def rows(x, y, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + tl.program_id(0) * cols + c, e / tl.sum(e, 0), mask=c < cols)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)
        return y
"""


@pytest.mark.slow
def test_a_module_is_forecast_from_the_kernels_that_it_launches() -> None:
    pytest.importorskip("triton")
    request = ForecastRequest(task="softmax", kernels=[Kernel(source=MODULE, language="python")], target="h200")
    found = forecast_kernel(request)
    assert found.evidence.facts["registers"] > 0
    assert found.evidence.facts["waves"] > 1
    assert "facts of the compiled kernel" in found.evidence_used[0]
    assert "no fact" not in found.evidence_used[0]
    assert found.forecast is not None
    assert "trees fitted" in found.forecast.rationale
