"""What is lifted goes to the launcher, and what is not, or goes wrong there, to cells: with scripted processes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from forewarp.core.errors import DeviceError, WorkerError
from forewarp.core.values import Language, Target, Task
from forewarp.gpu_runner.executors.client import OnLook, Reply, WorkerClient
from forewarp.gpu_runner.executors.launcher import LauncherClient
from forewarp.gpu_runner.worker.memory import Plan
from forewarp.gpu_runner.worker.requests import (
    BuiltKernel,
    LauncherJob,
    LaunchRequest,
    MeasureJob,
    ObserveRequest,
    ObserverJob,
    WorkerJob,
)

GPU = Target("a GPU", "cuda", "sm_90", 132, l2_bytes=1 << 20)
PROGRAMS = {
    "programs": [
        {
            "workload": "w",
            "nodes": [
                {"kind": "fill"},
                {"kind": "launch", "launch": {"name": "one"}},
                {"kind": "launch", "launch": {"name": "one"}},
            ],
            "outputs": [{"stride": [8, 1]}],
        }
    ]
}
LIFTED = {"status": "ok", "log": "", "protections": [], "programs": PROGRAMS, "seconds": {"load": 0.5}}
RESULT = {"status": "ok", "log": "", "broken": False}
Answer = Mapping[str, Any] | None


class Session:
    """A process that answers what its script says."""

    def __init__(self, worker: Worker, job: WorkerJob) -> None:
        self.worker, self.job, self.alive, self.gone, self.opening = worker, job, True, False, True
        worker.sessions.append(self)

    def request(
        self,
        document: ObserveRequest | LaunchRequest,
        timeout: float,
        on_look: OnLook | None = None,
        descriptors: Sequence[int] = (),
    ) -> Reply:
        del timeout
        self.opening = False
        if on_look is not None:
            self.worker.alive_when_checked = self.worker.observing()
            self.worker.opening_when_checked = self.worker.opening()
            on_look(None)
            self.worker.alive_when_timed = self.worker.observing()
            self.worker.opening_when_timed = self.worker.opening()
        answer = self.worker.answer("observe" if isinstance(document, ObserveRequest) else "launcher", document)
        self.alive = answer is not None
        return Reply(dict(answer) if answer is not None else None, "", 1.0, self.worker.started_s, exit_status=0)

    def wait_until_ready(self, timeout: float) -> None:
        del timeout
        self.worker.waited_for += self.opening
        self.opening = False

    def kill(self) -> None:
        self.alive = False

    def close(self) -> None:
        self.alive, self.gone = False, True


class Worker:
    """Opens scripted processes, and keeps what they were asked."""

    def __init__(self, **script: Callable[[Any], Answer] | Answer) -> None:
        self.script = script
        self.asked: list[tuple[str, Any]] = []
        self.closed, self.started_s = False, 0.1
        self.sessions: list[Session] = []
        self.waited_for = 0
        self.alive_when_checked = self.alive_when_timed = self.alive_in_cells = -1
        self.opening_when_checked = self.opening_when_timed = self.opening_in_cells = -1

    def answer(self, kind: str, document: Any) -> Answer:
        self.asked.append((kind, document))
        found = self.script.get(kind)
        return found(document) if callable(found) else found

    def observing(self) -> int:
        """Return how many observers that were asked something are not gone yet."""
        return sum(isinstance(s.job, ObserverJob) and not s.alive and not s.gone for s in self.sessions)

    def opening(self) -> int:
        """Return how many processes may not have opened the device yet."""
        return sum(s.opening and not s.gone for s in self.sessions)

    def open(self, job: WorkerJob) -> Session:
        return Session(self, job)

    def run(self, job: WorkerJob, timeout: float, on_look: OnLook | None = None) -> Reply:
        del timeout, on_look
        self.alive_in_cells, self.opening_in_cells = self.observing(), self.opening()
        answer = self.answer("measure", job)
        return Reply(dict(answer) if answer is not None else None, "", 1.0, 0.1)

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.asked]


def client(worker: Worker, *, of_all_tasks: bool = False) -> LauncherClient:
    folder = Path(tempfile.gettempdir())
    return LauncherClient(cast("WorkerClient", worker), GPU, folder, of_all_tasks=of_all_tasks)


def job(language: Language = "python") -> MeasureJob:
    return MeasureJob(
        task=Task("task", "task", "", {}),
        target=GPU,
        candidate=BuiltKernel(language, "", "", {}),
        memory=1 << 30,
        call_timeout_s=5.0,
        time_s=5.0,
        looks=(12,),
        cell_plans=(Plan(2),),
    )


def measured(worker: Worker, tasks: Sequence[str] = ("task",), **more: Any) -> Any:
    launching = client(worker)
    return [launching.measure(job(**more), task, lambda _: "on", 10.0) for task in tasks][-1]


def test_a_module_that_is_lifted_is_measured_by_the_launcher() -> None:
    worker = Worker(observe=LIFTED, launcher=RESULT)
    found = measured(worker)
    assert worker.kinds() == ["observe", "observe", "launcher"]
    assert worker.asked[-1][1].programs.keys() == {"candidate", "anchor"}
    assert (found.reply.answer["status"], found.anchor) == ("ok", "lifted")
    assert found.lifting == "lifted to 2 launches: 2 × one, fill"
    assert found.phases["observe load"] == 0.5


def test_the_reference_is_observed_once_per_task_and_its_strides_are_told() -> None:
    worker = Worker(observe=LIFTED, launcher=RESULT)
    measured(worker, ("task", "task", "other"))
    modules = [bool(document.module) for kind, document in worker.asked if kind == "observe"]
    assert modules == [False, True, True, False, True]
    kept = [document.keep_anchor for kind, document in worker.asked if kind == "launcher"]
    assert kept == [False, True, False]
    assert worker.asked[1][1].strides == {"w": [[8, 1]]}


def test_a_launcher_that_was_opened_for_a_task_is_waited_for_once_and_measures() -> None:
    worker = Worker(observe=LIFTED, launcher=RESULT)
    launching = client(worker)
    launching.open("task", 3.0, 0)
    launching.open("task", 3.0, 0)
    launching.measure(job(language="triton"), "task", lambda _: "on", 10.0)
    assert (worker.kinds(), worker.waited_for) == (["observe", "launcher"], 1)
    launching.open("other", 3.0, 0)
    assert (worker.kinds()[2:], worker.waited_for) == ([], 2)


def test_launchers_that_are_opened_together_each_serve_one_task() -> None:
    worker = Worker(observe=LIFTED, launcher=RESULT)
    launching = client(worker)
    for task in ("one", "two", "three", "four"):
        launching.open(task, 3.0, 2)
        assert worker.opening() == 0
        launching.measure(job(language="triton"), task, lambda _: "on", 10.0)
        launching.end()
    assert worker.waited_for == 6
    assert sum(isinstance(s.job, LauncherJob) and not s.gone for s in worker.sessions) == 2
    launching.close()
    assert all(s.gone for s in worker.sessions if isinstance(s.job, LauncherJob))


def test_one_launcher_may_serve_all_tasks_until_it_is_ended_or_a_kernel_ends_it() -> None:
    answers = [RESULT, RESULT, None, RESULT, RESULT]
    worker = Worker(observe=LIFTED, launcher=lambda _: answers.pop(0))
    launching = client(worker, of_all_tasks=True)

    def launchers_after(*tasks: str) -> int:
        for task in tasks:
            launching.open(task, 3.0, 0)
            launching.measure(job(language="triton"), task, lambda _: "on", 10.0)
        return sum(isinstance(session.job, LauncherJob) for session in worker.sessions)

    assert launchers_after("one", "two") == 1
    assert [document.keep_anchor for kind, document in worker.asked if kind == "launcher"] == [False, False]
    assert launchers_after("the one that crashes") == 1
    assert launchers_after("two") == 2
    launching.end()
    assert launchers_after("two") == 3


def test_all_candidates_of_a_task_get_the_weights_that_its_reference_was_lifted_with() -> None:
    worker = Worker(observe=LIFTED, launcher=RESULT)
    measured(worker, ("task", "task", "other"))
    one, *_, two, other = [document.job.weight_seed for kind, document in worker.asked if kind == "launcher"]
    assert one == two != other
    assert {document.job.weight_seed for kind, document in worker.asked if kind == "observe"} == {one, other}


def test_observers_are_gone_before_anything_is_timed() -> None:
    worker = Worker(observe=LIFTED, launcher=RESULT)
    measured(worker)
    assert (worker.alive_when_checked, worker.alive_when_timed, worker.observing()) == (2, 0, 0)


def test_observers_are_gone_before_a_module_runs_in_its_cell() -> None:
    worker = Worker(observe=LIFTED, launcher={"status": "refused", "log": "no"}, measure=RESULT)
    measured(worker)
    assert (worker.alive_in_cells, worker.observing()) == (0, 0)


def test_what_opens_the_device_for_the_next_is_done_before_anything_is_timed() -> None:
    worker = Worker(observe=LIFTED, launcher=RESULT)
    launching = client(worker)
    launching.measure(job(), "task", lambda _: "on", 10.0)
    launching.open_ahead()
    for task in ("task", "task", "other"):
        launching.measure(job(), task, lambda _: "on", 10.0)
        assert (worker.opening_when_checked > 0, worker.opening_when_timed, worker.opening()) == (True, 0, 0)


def test_what_opens_the_device_for_the_next_is_done_before_a_module_runs_in_its_cell() -> None:
    worker = Worker(observe=LIFTED | {"status": "unlifted", "log": "it waits"}, measure=RESULT)
    launching = client(worker)
    launching.open_ahead()
    launching.measure(job(), "task", lambda _: "on", 10.0)
    assert worker.opening_in_cells == 0


def test_no_other_process_finds_the_device_being_opened_after_a_module_that_fails() -> None:
    worker = Worker(observe=LIFTED | {"status": "runtime_error", "log": "NameError: x"})
    launching = client(worker)
    launching.open_ahead()
    launching.measure(job(), "task", lambda _: "on", 10.0)
    assert worker.opening() == 0


def test_device_only_kernels_are_not_observed_but_their_reference_is() -> None:
    worker = Worker(observe=LIFTED, launcher=RESULT)
    found = measured(worker, language="triton")
    assert worker.kinds() == ["observe", "launcher"]
    assert found.lifting == ""


def test_what_cannot_be_lifted_is_run_in_cells_and_says_why() -> None:
    def observe(document: ObserveRequest) -> Answer:
        return LIFTED if document.module is None else LIFTED | {"status": "unlifted", "log": "it has a loop"}

    worker = Worker(observe=observe, launcher=RESULT, measure=RESULT)
    found = measured(worker)
    assert worker.kinds() == ["observe", "observe", "measure"]
    assert found.lifting == "not lifted: it has a loop"
    assert worker.asked[-1][1].captures == {"candidate": True, "anchor": True}


@pytest.mark.parametrize(
    "told", [LIFTED | {"status": "unlifted", "log": "a forward cannot be captured as a CUDA graph: .item()"}, None]
)
def test_what_torch_refused_to_capture_or_crashed_is_not_captured_again(told: Answer) -> None:
    def observe(document: ObserveRequest) -> Answer:
        return LIFTED if document.module is None else told

    worker = Worker(observe=observe, measure=RESULT)
    measured(worker)
    assert worker.asked[-1][1].captures == {"candidate": False, "anchor": True}


@pytest.mark.parametrize(
    "told",
    [
        RESULT | {"status": "incorrect", "log": "output 0 is off"},
        {"status": "refused", "log": "no room"},
        None,
    ],
)
def test_where_a_program_goes_wrong_the_module_itself_is_run(told: Answer) -> None:
    worker = Worker(observe=LIFTED, launcher=told, measure=RESULT)
    found = measured(worker)
    assert worker.kinds()[-2:] == ["launcher", "measure"]
    assert found.reply.answer["status"] == "ok"
    assert found.lifting.startswith("not lifted: as a program it is not what it is as a module")


def test_a_module_that_is_wrong_itself_is_told_by_its_own_run() -> None:
    own = RESULT | {"status": "incorrect", "log": "output 0: 7 % of the elements are off"}
    worker = Worker(observe=LIFTED, launcher=RESULT | {"status": "incorrect", "log": "off"}, measure=own)
    found = measured(worker)
    assert found.reply.answer == own
    assert found.lifting == ""


@pytest.mark.parametrize("status", ["runtime_error", "incorrect", "out_of_memory"])
def test_what_a_module_raises_is_its_result(status: str) -> None:
    def observe(document: ObserveRequest) -> Answer:
        return LIFTED if document.module is None else LIFTED | {"status": status, "log": "NameError: x"}

    worker = Worker(observe=observe)
    found = measured(worker)
    assert worker.kinds() == ["observe", "observe"]
    assert (found.reply.answer["status"], found.reply.answer["log"]) == (status, "NameError: x")


def test_what_comes_of_the_observation_is_not_the_modules_fault() -> None:
    def observe(document: ObserveRequest) -> Answer:
        log = "RuntimeError: CUDAPluggableAllocator does not yet support getDeviceStats"
        return LIFTED if document.module is None else LIFTED | {"status": "runtime_error", "log": log}

    worker = Worker(observe=observe, measure=RESULT)
    assert measured(worker).reply.answer["status"] == "ok"
    assert worker.kinds()[-1] == "measure"


def test_a_reference_that_is_not_lifted_is_called_as_it_is_and_not_observed_again() -> None:
    def observe(document: ObserveRequest) -> Answer:
        return LIFTED | ({"status": "unlifted", "log": "it waits"} if document.module is None else {})

    worker = Worker(observe=observe, launcher=RESULT)
    found = measured(worker, ("task", "task"))
    assert [bool(d.module) for k, d in worker.asked if k == "observe"] == [False, True, True]
    assert found.anchor == "called as it is: it waits"
    assert worker.asked[-1][1].programs.keys() == {"candidate"}


def test_an_answer_that_makes_no_sense_lifts_nothing() -> None:
    def observe(document: ObserveRequest) -> Answer:
        return LIFTED if document.module is None else {"status": "ok"}

    worker = Worker(observe=observe, measure=RESULT)
    assert "makes no sense" in measured(worker).lifting


def test_a_launcher_that_never_starts_is_told() -> None:
    worker = Worker(observe=LIFTED, launcher=None)
    worker.started_s = 0.0
    with pytest.raises(WorkerError, match="does not start"):
        measured(worker, language="triton")


def test_a_wrong_canary_is_the_devices_fault() -> None:
    worker = Worker(observe=LIFTED, launcher={"status": "canary_wrong", "broken": True})
    with pytest.raises(DeviceError, match="right result"):
        measured(worker, language="triton")
