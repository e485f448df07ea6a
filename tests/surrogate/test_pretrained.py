"""The prior that ships with the package, and what the learned forecaster makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from contracts.forecaster_contract import TASK, ForecasterContract, failed, measured

from forewarp.core.errors import UsageError
from forewarp.core.protocols import Forecaster, Subject, Trial
from forewarp.core.values import Build, Candidate, Evidence, Measurement, Target, WorkloadTiming
from forewarp.inspection.features.vector import VECTOR_VERSION, columns
from forewarp.surrogate import pretrained
from forewarp.surrogate.learned import LearnedForecaster

GPU = Target("g", "cuda", "sm_90", 132, 4.8e12, 67e12, 989e12, 60 << 20, 232448)
FACTS = {
    "registers": 32.0,
    "stack_bytes": 0.0,
    "shared_bytes": 0.0,
    "threads": 256.0,
    "blocks": 65536.0,
    "waves": 62.0,
    "tail": 0.0,
    "occupancy": 1.0,
    "launches": 1.0,
    "calls": 0.0,
    "bytes_per_thread": 8.0,
    "floor_s": 2.8e-5,
    "flops_per_byte": 0.0,
    "instructions": 40.0,
    "loop_share": 0.0,
    "mix.global_load": 0.05,
    "mix.global_store": 0.025,
    "mix.fp32": 0.2,
    "mix.integer": 0.3,
    "width.global_load": 32.0,
    "width.global_store": 32.0,
}
SOURCE = """/*forewarp
inputs = ["x"]
outputs = ["y"]
[tunables]
THREADS = [256, 128, 512]
[[launch]]
kernel = "k"
args = ["x", "y"]
grid = ["65536"]
block = ["THREADS"]
*/
extern "C" __global__ void k(const float* x, float* y) {
    const int i = blockIdx.x * THREADS + threadIdx.x;
    y[STEP * i] = x[STEP * i];
}
"""


def kernel(step: int = 1, threads: int = 256, **facts: float) -> Subject:
    source = SOURCE.replace("STEP", str(step))
    seen = FACTS | {"threads": float(threads), "blocks": 65536.0 * 256 / threads} | facts
    return Subject(Candidate(source, "cuda", {"THREADS": threads}), Build("ok", 0.1, evidence=Evidence(seen)))


def timed(speedup: float, anchor_s: float = 1e-4) -> Measurement:
    timing = WorkloadTiming("w", speedup, speedup * 0.99, speedup * 1.01, anchor_s / speedup, anchor_s, 0.0)
    return replace(measured(speedup), workloads=(timing,))


class TestOnAGpu(ForecasterContract):
    """The contract over kernels that the trees know."""

    @pytest.fixture
    def forecaster(self) -> Forecaster:
        return LearnedForecaster()

    @pytest.fixture
    def history(self) -> list[Trial]:
        return [Trial(kernel(1), timed(1.2)), Trial(kernel(8), timed(0.4)), Trial(kernel(4), failed())]


def test_the_shipped_file_loads() -> None:
    model = pretrained.shipped()
    assert set(model.columns) < set(columns())
    assert pretrained.SHIPPED.stat().st_size < 2 << 20
    assert {"data_sha256", "dated", "version", "left_out"} <= set(model.info)
    assert model.info["left_out"]["spearman"] > 0.6


def test_kernels_that_waste_sectors_are_forecast_slower() -> None:
    straight, strided = LearnedForecaster().forecast(TASK, GPU, [kernel(1), kernel(8)], [])
    assert straight.median > strided.median
    assert "trees fitted to" in straight.rationale
    assert "guessed" in straight.rationale


def test_the_anchor_s_time_moves_the_level() -> None:
    slow = LearnedForecaster(anchors={TASK.sha256: 4e-4}).forecast(TASK, GPU, [kernel()], [])[0]
    fast = LearnedForecaster(anchors={TASK.sha256: 1e-4}).forecast(TASK, GPU, [kernel()], [])[0]
    assert slow.median == pytest.approx(4 * fast.median)
    blind = LearnedForecaster().forecast(TASK, GPU, [kernel()], [])[0]
    assert blind.interval[1] / blind.interval[0] > fast.interval[1] / fast.interval[0]


def test_trials_move_the_level_and_narrow_it() -> None:
    before = LearnedForecaster().forecast(TASK, GPU, [kernel(1, 128)], [])[0]
    trials = [Trial(kernel(1, t), timed(2.0)) for t in (256, 512)]
    after = LearnedForecaster().forecast(TASK, GPU, [kernel(1, 128)], trials)[0]
    assert after.median == pytest.approx(2.0, rel=0.25)
    assert after.interval[1] / after.interval[0] < before.interval[1] / before.interval[0]
    assert "corrected by a Gaussian process on 2 trials" in after.rationale


def test_what_the_trees_do_not_know_falls_back() -> None:
    unseen = Subject(Candidate("class ModelNew: ...", "python"), Build("ok", 0.0))
    known, other = LearnedForecaster().forecast(TASK, GPU, [kernel(), unseen], [])
    alone = LearnedForecaster(alone=True).forecast(TASK, GPU, [kernel(), unseen], [])
    assert "trees" not in other.rationale
    assert replace(other, cost=alone[1].cost) == alone[1]
    assert known.median != alone[0].median


def test_rows_do_not_depend_on_each_other() -> None:
    model = pretrained.shipped()
    together = model.expect(GPU, [kernel(1), kernel(8)])
    one = model.expect(GPU, [kernel(8)])
    assert together.time[1] == one.time[0]
    assert 0 < one.valid[0] < 1


def test_other_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"nothing")
    with pytest.raises(UsageError, match="no model"):
        pretrained.load(bad)
    monkeypatch.setattr(pretrained, "VECTOR_VERSION", VECTOR_VERSION + 1)
    with pytest.raises(UsageError, match="version"):
        pretrained.load()
