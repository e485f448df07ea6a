"""The prior that ships with the package, and what the learned forecaster makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from contracts.forecaster_contract import TASK, ForecasterContract, failed
from support.gpu_kernels import GPU, kernel, timed

from forewarp.core.errors import UsageError
from forewarp.core.protocols import Forecaster, Subject, Trial
from forewarp.core.values import Build, Candidate, Forecast
from forewarp.inspection.features.vector import VECTOR_VERSION, columns
from forewarp.surrogate import pretrained
from forewarp.surrogate.learned import LearnedForecaster
from forewarp.surrogate.reference import ReferenceTime


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
    slow, fast = (told(ReferenceTime({"w": seconds})) for seconds in (4e-4, 1e-4))
    assert slow.median == pytest.approx(4 * fast.median)
    blind = told(None)
    assert blind.interval[1] / blind.interval[0] > fast.interval[1] / fast.interval[0]
    assert "guessed" in blind.rationale


def test_a_forecast_of_the_anchor_s_time_counts_by_its_spread() -> None:
    blind, measured_s = told(None), told(ReferenceTime({"w": 4e-4}))
    rough, close = (told(ReferenceTime({"w": 4e-4}, sd)) for sd in (1.0, 0.1))
    assert blind.median < rough.median < close.median < measured_s.median
    widths = [f.interval[1] / f.interval[0] for f in (blind, rough, close, measured_s)]
    assert widths == sorted(widths, reverse=True)
    assert "the reference's time forecast" in rough.rationale
    assert "the reference's time" not in measured_s.rationale


def told(reference: ReferenceTime | None) -> Forecast:
    known = {TASK.sha256: reference} if reference else {}
    return LearnedForecaster(references=known).forecast(TASK, GPU, [kernel()], [])[0]


def test_trials_move_the_level_and_narrow_it() -> None:
    before = LearnedForecaster().forecast(TASK, GPU, [kernel(1, 128)], [])[0]
    trials = [Trial(kernel(1, t), timed(2.0)) for t in (256, 512)]
    after = LearnedForecaster().forecast(TASK, GPU, [kernel(1, 128)], trials)[0]
    assert after.median == pytest.approx(2.0, rel=0.25)
    assert after.interval[1] / after.interval[0] < before.interval[1] / before.interval[0]
    assert "corrected by a Gaussian process on 2 timed trials" in after.rationale


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
