from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from support import synthetic_executor as synthetic

from forewarp.core.errors import CandidateError, DeviceError, TaskError, WorkerError
from forewarp.core.protocols import Subject
from forewarp.core.values import Build, Candidate, DeviceKind, Measurement, Signature, Task
from forewarp.gpu_runner.pipeline import AHEAD, Job, measure_all, measure_jobs

TASK = synthetic.task()
PATIENCE_S = 60.0


def kernels(count: int) -> list[Candidate]:
    return [synthetic.seed(synthetic.SOURCE + f"// {k}\n") for k in range(count)]


class Watched(synthetic.SyntheticExecutor):
    """Knows the most compiles and measurements at once; either waits until so many as are said are under way.

    The measurement whose number is `meets` waits for a compile as well. Each takes `lasts_s` at least.
    """

    def __init__(
        self, compiles: int = 1, measures: int = 1, kind: DeviceKind = "cuda", meets: int = 0, lasts_s: float = 0.0
    ) -> None:
        super().__init__(replace(synthetic.TARGET, kind=kind))
        self.meets, self.lasts_s = meets, lasts_s
        self.together = {"compile": threading.Barrier(compiles), "measure": threading.Barrier(measures)}
        self.changed = threading.Condition()
        self.now, self.most = Counter[str](), Counter[str]()
        self.both = False
        self.anchors: list[Subject | None] = []

    @contextmanager
    def under_way(self, what: str) -> Generator[None]:
        with self.changed:
            self.now[what] += 1
            self.most[what] = max(self.most[what], self.now[what])
            self.both |= self.now.total() > self.now[what]
            self.changed.notify_all()
            if what == "measure" and len(self.measured) + 1 == self.meets:
                assert self.changed.wait_for(lambda: self.now["compile"], PATIENCE_S)
        try:
            self.together[what].wait(PATIENCE_S)
            time.sleep(self.lasts_s)
            yield
        finally:
            with self.changed:
                self.now[what] -= 1

    def compile(self, task: Task, candidate: Candidate) -> Build:
        with self.under_way("compile"):
            return super().compile(task, candidate)

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        with self.under_way("measure"):
            self.anchors.append(against)
            return super().measure(task, candidate, build, against, beat)


def test_compiles_run_ahead_while_one_is_measured() -> None:
    # The ninth compile is asked for before the second measurement, and waits for three more.
    executor = Watched(compiles=4, meets=2)
    found = list(measure_all(executor, TASK, kernels(12), threads=4))
    assert len(found) == 12
    assert all(m.status == "ok" for _, _, m in found)
    assert [c for c, _, _ in found] == executor.measured
    assert executor.most == {"compile": 4, "measure": 1}
    assert executor.both


def test_nothing_compiles_while_a_processor_is_measured() -> None:
    executor = Watched(compiles=2, kind="cpu", lasts_s=0.01)
    assert len(list(measure_all(executor, TASK, kernels(8), threads=2))) == 8
    assert executor.most == {"compile": 2, "measure": 1}
    assert not executor.both


def test_several_devices_measure_at_once() -> None:
    executor = Watched(measures=3)
    assert len(list(measure_all(executor, TASK, kernels(9), threads=2, devices=3))) == 9
    assert executor.most["measure"] == 3


def test_failures_are_yielded_and_stop_nothing() -> None:
    class Picky(Watched):
        def compile(self, task: Task, candidate: Candidate) -> Build:
            if "malformed" in candidate.source:
                raise CandidateError("no launch plan", hint="see docs/tasks.md")
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

    found = measure_all(Watched(), TASK, stream(), threads=2)
    for _ in range(3):
        next(found)
    assert taken <= 3 + 2 * AHEAD
    found.close()  # type: ignore[attr-defined]
    assert not [t for t in threading.enumerate() if t.name.startswith("compile")]


def test_a_lost_process_is_replaced_once() -> None:
    class Loses(Watched):
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
    executor = Watched()
    anchor = Subject(synthetic.seed(UNROLL=2), Build("ok", 0.0))
    assert len(list(measure_all(executor, TASK, kernels(3), threads=2, against=anchor))) == 3
    assert executor.anchors == [anchor] * 3


def jobs(*names: str) -> list[Job]:
    """Two candidates for each of several tasks; the name is part of the reference."""
    tasks = [replace(synthetic.task(name=name), reference=f"{synthetic.REFERENCE}# {name}") for name in names]
    return [Job(task, kernel) for task in tasks for kernel in kernels(2)]


class Referring(Watched):
    """Knows which references were described; one whose task is called `broken` fails."""

    def __init__(self, kind: DeviceKind = "cuda") -> None:
        super().__init__(kind=kind)
        self.described = Counter[str]()

    def describe(self, task: Task) -> tuple[Signature, ...]:
        self.described[task.name] += 1
        if task.name == "broken":
            raise TaskError("the reference fails")
        return super().describe(task)


@pytest.mark.parametrize("threads", [1, 4])
def test_a_reference_that_fails_is_run_once_and_stops_no_other_task(threads: int) -> None:
    executor = Referring()
    outcomes = list(measure_jobs(executor, jobs("one", "broken", "two"), threads=threads, describe=True))
    assert executor.described == {"one": 1, "broken": 1, "two": 1}
    assert Counter((o.job.task.name, o.measurement is not None, type(o.error)) for o in outcomes) == {
        ("one", True, type(None)): 2,
        ("broken", False, TaskError): 2,
        ("two", True, type(None)): 2,
    }


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_a_task_whose_jobs_all_fail_first_does_not_end_the_series(kind: DeviceKind) -> None:
    outcomes = list(measure_jobs(Referring(kind), jobs("broken", "one"), threads=1, describe=True))
    assert [o.job.task.name for o in outcomes] == ["broken", "broken", "one", "one"]


def test_a_lost_process_is_the_outcome_of_its_own_job() -> None:
    class Loses(Watched):
        def measure(self, task: Task, *rest: object, **more: object) -> Measurement:  # type: ignore[override]
            if task.name == "one":
                raise WorkerError("lost")
            return super().measure(task, *rest, **more)  # type: ignore[arg-type]

    outcomes = list(measure_jobs(Loses(), jobs("one", "two"), threads=2))
    errors = {(o.job.task.name, type(o.error)) for o in outcomes}  # they come in the order in which they are done
    assert errors == {("one", WorkerError), ("two", type(None))}


def test_a_device_that_is_out_of_order_ends_the_series() -> None:
    class Broken(Watched):
        def measure(self, *rest: object, **more: object) -> Measurement:  # type: ignore[override]
            raise DeviceError("out of order")

    with pytest.raises(DeviceError, match="out of order"):
        list(measure_jobs(Broken(), jobs("one", "two"), threads=2))


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_what_is_measured_when_it_is_to_stop_is_still_yielded(kind: DeviceKind) -> None:
    executor, stop = Watched(kind=kind), threading.Event()

    def started(job: Job) -> None:
        if len(executor.measured) == 2:
            stop.set()

    done = list(measure_jobs(executor, jobs("a", "b", "c"), threads=2, started=started, stopped=stop.is_set))
    assert [o.job.candidate for o in done] == executor.measured
    assert len(done) == 3
    assert not [t for t in threading.enumerate() if t.name.startswith(("compile", "measure"))]


def test_several_tasks_are_measured_at_once() -> None:
    executor = Watched(measures=3)
    assert len(list(measure_jobs(executor, jobs("a", "b", "c"), threads=2, devices=3))) == 6
    assert executor.most["measure"] == 3
