from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support import synthetic_executor as synthetic

from forewarp.core.errors import CandidateError, WorkerError
from forewarp.core.protocols import Subject
from forewarp.core.values import Build, Candidate, DeviceKind, Measurement, Task
from forewarp.gpu_runner.pipeline import AHEAD, measure_all

TASK = synthetic.task()


def kernels(count: int) -> list[Candidate]:
    return [synthetic.seed(synthetic.SOURCE + f"// {k}\n") for k in range(count)]


class Slow(synthetic.SyntheticExecutor):
    """Compiling takes `compile_s`, measuring `measure_s`; knows the most compiles and measurements at once."""

    def __init__(self, compile_s: float = 0.0, measure_s: float = 0.0, kind: DeviceKind = "cuda") -> None:
        super().__init__(replace(synthetic.TARGET, kind=kind))
        self.both = 0
        self.compile_s, self.measure_s = compile_s, measure_s
        self.compiling = self.measuring = self.most_compiling = self.most_measuring = 0
        self.anchors: list[Subject | None] = []

    def compile(self, task: Task, candidate: Candidate) -> Build:
        self.compiling += 1
        self.most_compiling = max(self.most_compiling, self.compiling)
        self.both += bool(self.measuring)
        time.sleep(self.compile_s)
        self.compiling -= 1
        return super().compile(task, candidate)

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        self.measuring += 1
        self.most_measuring = max(self.most_measuring, self.measuring)
        self.anchors.append(against)
        time.sleep(self.measure_s)
        self.measuring -= 1
        return super().measure(task, candidate, build, against, beat)


def test_compiles_run_ahead_while_one_is_measured() -> None:
    executor = Slow(compile_s=0.1, measure_s=0.05)
    begin = time.perf_counter()
    found = list(measure_all(executor, TASK, kernels(12), threads=4))
    seconds = time.perf_counter() - begin
    assert len(found) == 12
    assert all(m.status == "ok" for _, _, m in found)
    assert [c for c, _, _ in found] == executor.measured
    assert executor.most_measuring == 1
    assert executor.both
    assert 1 < executor.most_compiling <= 4
    assert seconds < 12 * 0.15 * 0.7  # one after the other it takes 1.8 s


def test_nothing_compiles_while_a_processor_is_measured() -> None:
    executor = Slow(compile_s=0.01, measure_s=0.02, kind="cpu")
    assert len(list(measure_all(executor, TASK, kernels(9), threads=2))) == 9
    assert executor.most_compiling == 2
    assert not executor.both


def test_several_devices_measure_at_once() -> None:
    executor = Slow(measure_s=0.05)
    assert len(list(measure_all(executor, TASK, kernels(9), threads=2, devices=3))) == 9
    assert executor.most_measuring == 3


def test_failures_are_yielded_and_stop_nothing() -> None:
    class Picky(Slow):
        def compile(self, task: Task, candidate: Candidate) -> Build:
            if "malformed" in candidate.source:
                raise CandidateError("no launch plan", hint="see docs/candidates.md")
            return super().compile(task, candidate)

    texts = ("", "#error\n", "// malformed\n", "// crash\n", "// wrong\n")
    given = [synthetic.seed(synthetic.SOURCE + text) for text in texts]
    told: list[Candidate] = []
    found = {c.sha256: m for c, _, m in measure_all(Picky(), TASK, given, threads=1, started=told.append)}
    assert [found[c.sha256].status for c in given] == ["ok", "compile_error", "compile_error", "crashed", "incorrect"]
    assert "no launch plan" in found[given[2].sha256].log
    assert told == [given[0], given[3], given[4]]


def test_an_endless_stream_is_taken_as_it_is_needed() -> None:
    taken = 0

    def stream() -> Iterator[Candidate]:
        nonlocal taken
        for kernel in kernels(1000):
            taken += 1
            yield kernel

    found = measure_all(Slow(), TASK, stream(), threads=2)
    for _ in range(3):
        next(found)
    assert taken <= 3 + 2 * AHEAD
    found.close()  # type: ignore[attr-defined]
    assert not [t for t in threading.enumerate() if t.name.startswith("compile")]


def test_a_lost_process_is_replaced_once() -> None:
    class Loses(Slow):
        left = 1

        def measure(
            self,
            task: Task,
            candidate: Candidate,
            build: Build,
            against: Subject | None = None,
            beat: float | None = None,
        ) -> Measurement:
            self.left -= 1
            if self.left >= 0:
                lost = WorkerError("the measuring process was lost")
                lost.lost_s = 3.0
                raise lost
            return super().measure(task, candidate, build, against, beat)

    executor = Loses()
    first, second = measure_all(executor, TASK, kernels(2), threads=1)
    assert first[2].phases["lost"] == 3.0
    assert "lost" not in second[2].phases
    executor.left = 2
    with pytest.raises(WorkerError, match="lost") as failed:
        list(measure_all(executor, TASK, kernels(2), threads=1))
    assert failed.value.lost_s == 6.0


def test_every_candidate_meets_the_same_anchor() -> None:
    executor = Slow()
    anchor = Subject(synthetic.seed(UNROLL=2), Build("ok", 0.0))
    assert len(list(measure_all(executor, TASK, kernels(3), threads=2, against=anchor))) == 3
    assert executor.anchors == [anchor] * 3
