"""What every `Executor` must do. A subclass gives the fixtures; `failing` may be empty."""

from __future__ import annotations

import dataclasses

import pytest

from forewarp.core.protocols import Executor
from forewarp.core.values import Candidate, Status, Task


class ExecutorContract:
    @pytest.fixture
    def executor(self) -> Executor:
        raise NotImplementedError

    @pytest.fixture
    def task(self) -> Task:
        raise NotImplementedError

    @pytest.fixture
    def good(self) -> Candidate:
        """A candidate that compiles and is correct."""
        raise NotImplementedError

    @pytest.fixture
    def failing(self) -> list[tuple[Candidate, Status]]:
        """Candidates with the status that their measurement must have."""
        raise NotImplementedError

    def test_it_is_an_executor(self, executor: Executor) -> None:
        assert isinstance(executor, Executor)

    def test_target_stays_the_same(self, executor: Executor) -> None:
        assert executor.target == executor.target
        assert executor.target.name

    def test_where_only_some_candidates_have_answers_they_are_named(
        self, executor: Executor, task: Task, good: Candidate
    ) -> None:
        known = executor.candidates(task)
        assert known is None or good in known

    def test_describes_each_workload_of_the_target(self, executor: Executor, task: Task) -> None:
        signatures = executor.describe(task)
        assert [s.workload for s in signatures] == [w.name for w in task.workloads[executor.target.kind]]
        assert executor.describe(task) == signatures
        assert all(s.outputs for s in signatures)

    def test_compiling_twice_gives_the_same_code(self, executor: Executor, task: Task, good: Candidate) -> None:
        first, second = executor.compile(task, good), executor.compile(task, good)
        assert first.status == second.status == "ok", first.log
        assert first.binary_sha256 == second.binary_sha256
        assert first.seconds >= 0

    def test_a_good_candidate_has_a_speedup_with_its_interval(
        self, executor: Executor, task: Task, good: Candidate
    ) -> None:
        m = executor.measure(task, good, executor.compile(task, good))
        assert m.status == "ok", m.log
        assert m.speedup is not None
        assert m.low is not None
        assert m.high is not None
        assert 0 < m.low <= m.speedup <= m.high
        assert m.device_s >= 0
        assert [w.workload for w in m.workloads] == [w.name for w in task.workloads[executor.target.kind]]

    def test_what_is_to_be_beaten_may_end_the_timing_but_leaves_a_whole_answer(
        self, executor: Executor, task: Task, good: Candidate
    ) -> None:
        build = executor.compile(task, good)
        easy, hopeless = (executor.measure(task, good, build, beat=beat) for beat in (1e-6, 1e6))
        assert easy.status == hopeless.status == "ok", hopeless.log
        assert not easy.stopped_early
        assert hopeless.high is not None
        assert not hopeless.stopped_early or hopeless.high < 1e6
        assert [w.workload for w in hopeless.workloads] == [w.name for w in task.workloads[executor.target.kind]]

    def test_a_failing_kernel_is_a_value(
        self, executor: Executor, task: Task, failing: list[tuple[Candidate, Status]]
    ) -> None:
        for candidate, status in failing:
            build = executor.compile(task, candidate)
            if status == "compile_error":
                assert build.status == status
                assert build.log
            m = executor.measure(task, candidate, build)
            assert m.status == status, m.log
            assert m.verdict in ("failed", "incorrect")
            assert m.speedup is m.low is m.high is None

    def test_a_failure_does_not_spoil_the_next_one(
        self, executor: Executor, task: Task, good: Candidate, failing: list[tuple[Candidate, Status]]
    ) -> None:
        for candidate, _ in failing:
            executor.measure(task, candidate, executor.compile(task, candidate))
        assert executor.measure(task, good, executor.compile(task, good)).status == "ok"

    def test_the_answer_does_not_depend_on_where_the_candidate_came_from(
        self, executor: Executor, task: Task, good: Candidate
    ) -> None:
        copy = dataclasses.replace(good, tunables=dict(good.tunables))
        assert executor.compile(task, copy).binary_sha256 == executor.compile(task, good).binary_sha256

    def test_closing_twice_is_fine(self, executor: Executor) -> None:
        executor.close()
        executor.close()
