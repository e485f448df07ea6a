from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from contracts.executor_contract import ExecutorContract
from support import synthetic_executor as synthetic

from forewarp.archive.pools import parquet
from forewarp.archive.pools.replay import ReplayExecutor
from forewarp.archive.rows import RecordedRow
from forewarp.archive.store import Archive
from forewarp.core.budget import Budget
from forewarp.core.errors import TaskError, UsageError
from forewarp.core.protocols import Executor
from forewarp.core.values import Candidate, Status, Target, Task
from forewarp.search.gate import Gate
from forewarp.search.loop import Search
from forewarp.search.proposers.recorded import PoolProposer
from forewarp.search.settings import SearchSettings

CRASHING = synthetic.seed(synthetic.SOURCE.replace("go(", "crash("))
WRONG = synthetic.seed(UNROLL=16, WIDTH=8)
BROKEN = synthetic.seed(TILE=512, WIDTH=8)
KERNELS = [synthetic.seed(), *(synthetic.seed(UNROLL=u) for u in (2, 4, 8)), CRASHING, WRONG, BROKEN]


@pytest.fixture
def rows(tmp_path: Path) -> list[RecordedRow]:
    """A pool that went through archive and Parquet."""
    executor, task = synthetic.SyntheticExecutor(), synthetic.task()
    with Archive(tmp_path / "a.db") as archive:
        archive.add_signatures(task, executor.target, executor.describe(task))
        for kernel in KERNELS:
            build = executor.compile(task, kernel)
            archive.record(task, executor.target, kernel, build, executor.measure(task, kernel, build))
        parquet.write_rows(archive.recorded(), tmp_path / "pool.parquet")
    return parquet.read_pool(tmp_path / "pool.parquet")


def test_rows_against_another_kernel_are_left_out(rows: list[RecordedRow]) -> None:
    other = replace(rows[0].measurement, anchor="ab" * 32, speedup=99.0, low=98.0, high=100.0)
    executor = ReplayExecutor([replace(rows[0], measurement=other), *rows], synthetic.TARGET)
    task, kernel = rows[0].task, rows[0].candidate
    assert executor.measure(task, kernel, executor.compile(task, kernel)).speedup == rows[0].measurement.speedup


class OnSynthetic(ExecutorContract):
    @pytest.fixture
    def task(self) -> Task:
        return synthetic.task()

    @pytest.fixture
    def good(self) -> Candidate:
        return synthetic.seed()

    @pytest.fixture
    def failing(self) -> list[tuple[Candidate, Status]]:
        return [(CRASHING, "crashed"), (WRONG, "incorrect"), (BROKEN, "compile_error")]


class TestReplayExecutor(OnSynthetic):
    @pytest.fixture
    def executor(self, rows: list[RecordedRow]) -> Executor:
        return ReplayExecutor(rows, synthetic.TARGET)


class TestSyntheticExecutor(OnSynthetic):
    @pytest.fixture
    def executor(self) -> Executor:
        return synthetic.SyntheticExecutor()


def test_replayed_results_say_so(rows: list[RecordedRow]) -> None:
    executor = ReplayExecutor(rows, synthetic.TARGET)
    task = synthetic.task()
    build = executor.compile(task, synthetic.seed())
    assert build.cached
    m = executor.measure(task, synthetic.seed(), build)
    assert m.source == "replay"
    assert replace(m, source="measured") == rows[0].measurement


def test_an_unknown_kernel_is_a_usage_error(rows: list[RecordedRow]) -> None:
    executor = ReplayExecutor(rows, synthetic.TARGET)
    with pytest.raises(UsageError, match="does not hold kernel"):
        executor.compile(synthetic.task(), synthetic.seed(UNUSED=1))
    with pytest.raises(TaskError, match="it holds toy"):
        executor.describe(replace(synthetic.task(), reference="class Model: pass"))
    with pytest.raises(UsageError, match="synthetic-1"):
        ReplayExecutor(rows, Target("other", "cpu", "none", 1))


def test_the_first_of_several_measurements_counts(rows: list[RecordedRow]) -> None:
    later = replace(rows[0], measurement=replace(rows[0].measurement, speedup=99.0))
    executor = ReplayExecutor([*rows, later], synthetic.TARGET)
    task = synthetic.task()
    assert executor.measure(task, synthetic.seed(), executor.compile(task, synthetic.seed())).speedup != 99.0
    assert len(executor.candidates(task)) == len(KERNELS)


def test_a_pool_is_searched_without_a_confirmation_that_would_confirm_nothing(
    rows: list[RecordedRow], tmp_path: Path
) -> None:
    executor, task = ReplayExecutor(rows, synthetic.TARGET), synthetic.task()
    with Archive(tmp_path / "replay.db") as archive:
        settings = SearchSettings(budget=Budget(measurements=4), proposals_per_round=3, measure_per_round=1, audit=0.0)
        proposer = PoolProposer(executor.candidates(task))
        forecaster = synthetic.KnowingForecaster(0.05)
        summary = Search.start(archive, task, executor, proposer, forecaster, settings).run()
    assert summary.measured == summary.spend.measurements == 4
    assert summary.best is not None
    assert not summary.best.confirmed
    assert summary.proposed <= len(KERNELS)


def test_what_was_recorded_needs_no_launch_plan_to_be_replayed(rows: list[RecordedRow]) -> None:
    bare = [replace(r, candidate=Candidate(f"__global__ void k{n}() {{}}", "cuda")) for n, r in enumerate(rows[:3])]
    bare.append(replace(bare[0], candidate=Candidate("__global__ void k0() {} // again", "cuda")))
    executor = ReplayExecutor(bare, synthetic.TARGET)
    gate = Gate(executor, synthetic.task(), executor.describe(synthetic.task()))
    outcomes = [g.outcome for g in gate.check(executor.candidates(synthetic.task()))]
    assert outcomes == ["passed", "passed", "passed", "duplicate"]
