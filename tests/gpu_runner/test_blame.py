"""What ends a measurement without a result: each time the one to blame is named, and nobody else."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.faults import module
from support.shared_executors import limited
from support.small_tasks import REFERENCE, cpp, small_task

from forewarp.core.errors import TaskError, WorkerError
from forewarp.core.values import Candidate, Measurement, Task
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.client import Reply
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.executors.verdicts import excuse
from forewarp.gpu_runner.worker import activity, watch
from forewarp.gpu_runner.worker.activity import Activity

LIMITS = Limits(compile_s=60, measure_s=60, call_s=20.0, memory=2 << 30, time_s=0.02, looks=(4,))
RIGHT = "return torch.softmax(x * self.weight + self.bias, dim=-1)"
SLEEPS = "rename(b'fw-sleeps'); time.sleep(300)"


@pytest.fixture
def executor(cpu_executor: LocalExecutor) -> Iterator[LocalExecutor]:
    with limited(cpu_executor, LIMITS) as made:
        yield made


@pytest.fixture
def own_executor(tmp_path: Path) -> Iterator[LocalExecutor]:
    limits = replace(LIMITS, measure_s=300, call_s=300)
    made = LocalExecutor(detect_cpu(), limits=limits, cache=tmp_path)
    made.probe()
    yield made
    made.close()


def once_it_has_values(statement: str) -> Task:
    """A task whose reference does something where its tensors have elements, so that describing it goes well."""
    before = f"if x.device.type != 'meta': {statement}"
    return small_task("import ctypes, os, sys, time\n" + REFERENCE.replace(RIGHT, f"{before}\n        {RIGHT}"))


def measure(executor: LocalExecutor, task: Task, candidate: Candidate) -> Measurement:
    return executor.measure(task, candidate, executor.compile(task, candidate))


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        pytest.param("os._exit(3)", "left with exit status 3"),
        pytest.param("os._exit(0)", "left with exit status 0", marks=pytest.mark.slow),
        pytest.param("sys.exit(3)", "raised SystemExit: 3"),
        pytest.param("ctypes.string_at(8)", "ended by SIGSEGV", marks=pytest.mark.slow),
    ],
)
def test_a_reference_that_ends_its_process_is_to_blame(executor: LocalExecutor, statement: str, word: str) -> None:
    with pytest.raises(TaskError, match="the candidate is not to blame") as e:
        measure(executor, once_it_has_values(statement), module())
    assert word in e.value.message
    assert "run the reference alone" in e.value.hint


@pytest.mark.slow
def test_a_reference_that_never_ends_is_to_blame(executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_limits", replace(LIMITS, measure_s=6, call_s=4))
    with pytest.raises(TaskError, match=r"took \d of the 6 s that a measurement may take; the candidate is not"):
        measure(executor, once_it_has_values("time.sleep(300)"), module())


@pytest.mark.slow
def test_the_anchors_calls_count_as_the_references(executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    # In the judge it is quick: it sleeps only in its cell, where nothing of the judge's is loaded.
    monkeypatch.setattr(executor, "_limits", replace(LIMITS, measure_s=8, call_s=4))
    task = once_it_has_values("sys._getframe(4).f_code.co_name == 'run' and time.sleep(1.5)")
    with pytest.raises(TaskError, match=r"of the 8 s that a measurement may take"):
        measure(executor, task, module())


@pytest.mark.slow
def test_a_candidate_that_never_ends_is_to_blame(executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_limits", replace(LIMITS, measure_s=5, call_s=30))
    assert measure(executor, small_task(), module("time.sleep(300)")).status == "timeout"


def test_a_task_that_does_not_fit_is_to_blame(executor: LocalExecutor) -> None:
    huge = small_task(REFERENCE.replace("torch.randn(ROWS, COLS)]", "torch.randn(ROWS << 30, 256)]"))
    huge = replace(huge, reference=huge.reference.replace("torch.randn(COLS)", "torch.randn(256)"))
    with pytest.raises(TaskError, match=r"cannot be measured, whatever the candidate: .* needs .* this machine has"):
        measure(executor, huge, module())


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("return x[x > 0]", id="shapes follow from values"),
        pytest.param("self.calls = vars(self).get('calls', 0) + 1; return x[self.calls :]", id="counts its calls"),
    ],
)
def test_a_reference_whose_outputs_do_not_fit_its_inputs_is_to_blame(executor: LocalExecutor, statement: str) -> None:
    task = small_task(REFERENCE.replace(RIGHT, statement))
    right = Candidate(task.reference.replace("class Model(", "class ModelNew("), "python")
    match = r"the reference returned float32 \[.*\] at one call and .* must follow from the shapes of the inputs"
    with pytest.raises(TaskError, match=match) as e:
        measure(executor, task, right)
    assert "the candidate is not to blame" in e.value.message
    with pytest.raises(TaskError, match=match):
        executor.validate(task)


def test_a_module_that_returns_another_shape_is_to_blame(executor: LocalExecutor) -> None:
    wrong = Candidate(REFERENCE.replace("class Model(", "class ModelNew(").replace(RIGHT, f"{RIGHT}[1:]"), "python")
    measured = measure(executor, small_task(), wrong)
    assert measured.status == "runtime_error"
    assert "forward returned" in measured.log


@contextlib.contextmanager
def striking(find: Callable[[], int | None], times: int = 1) -> Generator[list[int]]:
    """Kill each process that is found, until so many are killed; meanwhile do what is to be struck."""
    struck: list[int] = []
    stop = threading.Event()

    def strike() -> None:
        while len(struck) < times and not stop.wait(0.005):
            pid = find()
            if pid is not None and pid not in struck:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    struck.append(pid)

    striker = threading.Thread(target=strike)
    striker.start()
    try:
        yield struck
    finally:
        stop.set()
        striker.join()


def named(name: str) -> watch.Process | None:
    """Return a process of that name among this one's descendants."""
    for process in watch.family([os.getpid()]):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{process.pid}/comm").read_text().strip() == name:
                return process
    return None


def server_of_sleeper() -> int | None:
    """Return the fork server of a candidate that sleeps."""
    everybody, process = watch.processes(), named("fw-sleeps")
    while process is not None and process.parent != os.getpid():
        process = everybody.get(process.parent)
    return process.pid if process else None


@pytest.mark.slow
def test_a_killed_server_is_no_fault_of_the_candidate(own_executor: LocalExecutor) -> None:
    with striking(server_of_sleeper), pytest.raises(WorkerError, match="server was killed while it worked") as e:
        measure(own_executor, small_task(), module(SLEEPS))
    assert "the candidate is not to blame" in e.value.message
    assert e.value.lost_s > 0
    assert measure(own_executor, small_task(), module()).status == "ok"


def sleeper() -> int | None:
    process = named("fw-sleeps")
    return process.pid if process else None


@pytest.mark.slow
def test_a_reference_that_is_killed_is_not_to_blame(own_executor: LocalExecutor) -> None:
    name = "__import__('ctypes').CDLL(None).prctl(15, b'fw-sleeps'); __import__('time').sleep(300)"
    with striking(sleeper), pytest.raises(WorkerError, match="something else than forewarp; neither task nor"):
        own_executor.describe(small_task(REFERENCE.replace(RIGHT, name)))


def test_a_machine_that_gives_no_memory_to_share_is_to_blame(own_executor: LocalExecutor) -> None:
    assert measure(own_executor, small_task(), cpp()).status == "ok"
    servers = [p.pid for p in watch.family([os.getpid()]) if p.parent == os.getpid()]
    before = [resource.prlimit(s, resource.RLIMIT_FSIZE, (1 << 15, resource.RLIM_INFINITY)) for s in servers]
    try:
        with pytest.raises(WorkerError, match="machine refused what a measurement needs: File too large; neither task"):
            measure(own_executor, small_task(), cpp())
    finally:
        for server, limits in zip(servers, before, strict=True):
            resource.prlimit(server, resource.RLIMIT_FSIZE, limits)
    assert measure(own_executor, small_task(), cpp()).status == "ok"


def cc1plus() -> int | None:
    process = named("cc1plus")
    return process.pid if process else None


def slow_to_compile(which: str) -> Candidate:
    return replace(cpp(), source=cpp().source + _REGEX.format(which))


_REGEX = '#include <regex>\nstatic std::regex pattern("{}*b");\n'


@pytest.mark.slow
def test_a_killed_compiler_is_tried_again(own_executor: LocalExecutor) -> None:
    with striking(cc1plus) as struck:
        assert own_executor.compile(small_task(), slow_to_compile("a")).status == "ok"
    assert len(struck) == 1


@pytest.mark.slow
def test_a_compiler_that_is_killed_twice_is_no_fault_of_the_candidate(own_executor: LocalExecutor) -> None:
    with striking(cc1plus, 2), pytest.raises(WorkerError, match="twice; the candidate is not to blame") as e:
        own_executor.compile(small_task(), slow_to_compile("c"))
    assert "was killed" in e.value.message


def test_what_a_source_says_of_a_killed_compiler_is_a_compile_error(executor: LocalExecutor) -> None:
    lie = '#line 1 "g++: fatal error: Killed signal terminated program cc1plus"\n#error Killed signal\n'
    build = executor.compile(small_task(), replace(cpp(), source=cpp().source + lie))
    assert build.status == "compile_error"


KILLED = Reply(None, "", 2.0, 0.1, exit_status=-signal.SIGKILL)


@pytest.mark.parametrize(
    ("reply", "launched", "error"),
    [
        (KILLED, False, None),  # where it could have sent the signal, it may have been the candidate
        (replace(KILLED, activity=Activity(out_of_reach=True)), False, WorkerError),
        (KILLED, True, WorkerError),  # device code sends no signals
        (replace(KILLED, exit_status=-signal.SIGSEGV), True, None),
        (replace(KILLED, exit_status=-signal.SIGSEGV, activity=Activity(in_reference=True)), True, TaskError),
        (replace(KILLED, exit_status=1, activity=Activity(out_of_reach=True)), False, WorkerError),
        (replace(KILLED, timed_out=True, activity=Activity(reference_s=6.0)), False, TaskError),
        (replace(KILLED, timed_out=True, activity=Activity(reference_s=4.0, out_of_reach=True)), False, None),
    ],
)
def test_who_is_to_blame(reply: Reply, launched: bool, error: type[Exception] | None) -> None:
    with pytest.raises(error) if error else contextlib.nullcontext():
        excuse(reply, 10.0, "t", launched=launched)


def test_what_a_process_did_can_be_read_after_its_end(tmp_path: Path) -> None:
    log = tmp_path / "job1.log"
    assert activity.read(log) == Activity()
    pid = os.fork()
    if pid == 0:
        activity.begin(str(log))
        activity.out_of_reach()
        with activity.running_reference(), activity.running_reference():
            time.sleep(0.05)
            os._exit(0)
    os.waitpid(pid, 0)
    noted = activity.read(log)
    assert (noted.in_reference, noted.out_of_reach) == (True, True)
    assert 0.05 <= noted.reference_s < 5.0


def test_a_forked_process_cannot_reach_the_page(tmp_path: Path) -> None:
    pid = os.fork()
    if pid == 0:
        activity.begin(str(tmp_path / "job1.log"))
        inner = os.fork()
        if inner == 0:
            maps = Path("/proc/self/maps").read_text()
            os._exit("job1.activity" in maps)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_an_ending_shows_no_warnings_of_python() -> None:
    log = "loading\n/lib/torch/profiler.py:224: UserWarning: clears events.\n  _warn_once(\nkilled: out of luck"
    assert replace(KILLED, log=log).ending(3.0)[1] == "ended by SIGKILL\nloading\nkilled: out of luck"
