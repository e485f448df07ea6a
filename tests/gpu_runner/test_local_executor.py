"""The local executor on the CPU device: real compilers, real processes, and candidates that misbehave."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from contracts.executor_contract import ExecutorContract
from support.shared_executors import limited
from support.small_tasks import BODY, PLAN, REFERENCE, SIGNATURE, cpp, small_task

from forewarp.core.errors import DeviceError, TaskError, WorkerError
from forewarp.core.protocols import Executor
from forewarp.core.values import Candidate, Measurement, Status, Task, Workload
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.alternating import AlternatingExecutors
from forewarp.gpu_runner.executors.client import ServerProcess, WorkerClient
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.worker import watch
from forewarp.gpu_runner.worker.requests import ProbeJob

LIMITS = Limits(compile_s=60, measure_s=60, call_s=20.0, memory=2 << 30, time_s=0.05, looks=(4, 8))
HOPELESS = 1e9
"""No noise of a busy machine makes four blocks reach this speed-up."""


@pytest.fixture(scope="module")
def executor(cpu_executor: LocalExecutor) -> Iterator[LocalExecutor]:
    with limited(cpu_executor, LIMITS) as made:
        yield made


def measure(executor: LocalExecutor, candidate: Candidate) -> Measurement:
    task = small_task()
    return executor.measure(task, candidate, executor.compile(task, candidate))


MODULE = REFERENCE.replace("class Model(", "class ModelNew(")


class TestContract(ExecutorContract):
    @pytest.fixture
    def executor(self, executor: LocalExecutor) -> Executor:
        return executor

    @pytest.fixture
    def task(self) -> Task:
        return small_task()

    @pytest.fixture
    def good(self) -> Candidate:
        return cpp()

    @pytest.fixture
    def failing(self) -> list[tuple[Candidate, Status]]:
        return [(cpp(body="this is no C++"), "compile_error"), (cpp(after="y[0] += 1.0f;"), "incorrect")]

    def test_closing_twice_is_fine(self, executor: Executor) -> None:
        # The shared one is closed twice when all tests are over.
        super().test_closing_twice_is_fine(LocalExecutor(detect_cpu()))


class TestGoodCandidates:
    def test_cpp_is_measured_with_an_interval_on_every_workload(self, executor: LocalExecutor) -> None:
        result = measure(executor, cpp())
        assert result.status == "ok", result.log
        assert result.speedup is not None
        assert result.low is not None
        assert result.high is not None
        assert 0 < result.low <= result.speedup <= result.high
        assert [w.workload for w in result.workloads] == ["even", "odd"]
        assert all(len(w.candidate_s) == 2 * len(w.log_ratios) == len(w.anchor_s) for w in result.workloads)
        product = math.prod(w.speedup for w in result.workloads) ** 0.5
        assert result.speedup == pytest.approx(product)

    @pytest.mark.parametrize("candidate", [cpp(), Candidate(MODULE, "python")], ids=["cpp", "module"])
    def test_timing_ends_early_where_it_cannot_win(self, executor: LocalExecutor, candidate: Candidate) -> None:
        task = small_task()
        result = executor.measure(task, candidate, executor.compile(task, candidate), beat=HOPELESS)
        assert result.status == "ok", result.log
        assert result.stopped_early
        assert [(w.workload, len(w.candidate_s) // 2) for w in result.workloads] == [("even", 4), ("odd", 4)]
        assert all(w.control is None for w in result.workloads)
        assert result.speedup is not None
        assert result.low is not None
        assert result.high is not None
        assert 0 < result.low < result.speedup < result.high < HOPELESS

    def test_an_incorrect_candidate_is_incorrect_whatever_there_is_to_beat(self, executor: LocalExecutor) -> None:
        wrong = cpp(after="y[rows * cols - 1] *= 1.5f;")
        result = executor.measure(small_task(), wrong, executor.compile(small_task(), wrong), beat=1000.0)
        assert result.status == "incorrect"
        assert not result.stopped_early

    def test_protections_and_phases_are_reported(self, executor: LocalExecutor) -> None:
        result = measure(executor, cpp())
        assert {"own process", "own session"} <= set(result.protections)
        assert {"spawn", "compile", "check", "time", "setup"} <= set(result.phases)
        assert result.tier == "T1"
        assert result.environment["oracle"] == "fp64"

    def test_kernelbench_module_with_the_same_weights(self, executor: LocalExecutor) -> None:
        result = measure(executor, Candidate(MODULE, "python"))
        assert result.status == "ok", result.log

    def test_a_build_is_found_again(self, executor: LocalExecutor) -> None:
        first = executor.compile(small_task(), cpp(UNROLL=2))
        second = executor.compile(small_task(), cpp(UNROLL=2))
        assert second.cached
        assert second.binary_sha256 == first.binary_sha256

    def test_evidence_counts_instructions(self, executor: LocalExecutor) -> None:
        assert executor.compile(small_task(), cpp()).evidence.facts["instructions"] > 20


class TestCompileErrors:
    def test_syntax_error_carries_the_compilers_words(self, executor: LocalExecutor) -> None:
        build = executor.compile(small_task(), cpp(body="this is no C++"))
        assert build.status == "compile_error"
        assert "error" in build.log
        assert executor.measure(small_task(), cpp(body="this is no C++"), build).status == "compile_error"

    def test_module_with_a_syntax_error(self, executor: LocalExecutor) -> None:
        assert executor.compile(small_task(), Candidate("class ModelNew(:", "python")).status == "compile_error"

    def test_unknown_name_in_the_plan(self, executor: LocalExecutor) -> None:
        wrong = replace(cpp(), source=cpp().source.replace('"cols", "init0', '"columns", "init0'))
        build = executor.compile(small_task(), wrong)
        assert build.status == "compile_error"
        assert "columns" in build.log
        assert "known here" in build.log


# What each does wrong, the status it must get, and a word its log must hold.
BAD_CPP = {
    "segfault": (cpp(before="*(volatile int*)8 = 1;"), "crashed", "SIGSEGV"),
    "abort": (cpp(before="abort();"), "crashed", "ended by SIG"),
    "takes all memory": (cpp(before="y = new float[1L << 40];"), "out_of_memory", "bad_alloc"),
    "never ends": (cpp(before="for (volatile int i = 0;; i = i + 1) {}"), "timeout", "in time"),
    "sleeps": (cpp(before="sleep(60);"), "timeout", "in time"),
    "off by 1e-2": (cpp(after="for (int i = 0; i < rows * cols; ++i) y[i] *= 1.01f;"), "incorrect", "tolerance"),
    "one element off": (cpp(after="y[rows * cols - 1] *= 1.5f;"), "incorrect", "first at"),
    "leaves the last row": (cpp(before="rows -= 1;"), "incorrect", "nan"),
    "writes NaN": (cpp(after="y[0] = NAN;"), "incorrect", "not finite"),
    "changes its input": (cpp(after="const_cast<float*>(x)[0] += 1.0f;"), "incorrect", "changed its input"),
    "fakes a result and leaves": (
        cpp(before=r'puts("{\"status\": \"ok\", \"speedup\": 100}"); fflush(stdout); _exit(0);'),
        "crashed",
        "exit status 0",
    ),
    "fakes a result while loading": (
        Candidate(
            f'{PLAN}__attribute__((constructor)) static void f() {{ puts("K"); fflush(stdout); _exit(0); }}\n'
            f"{SIGNATURE} {{{BODY}}}",
            "cpp",
            {"UNROLL": 1},
        ),
        "crashed",
        "exit status 0",
    ),
    "stops after two calls": (cpp(before="static int n = 0; if (++n > 2) return;"), "incorrect", "output 0"),
}


# Of each kind of fault another one is tried on every run.
_LATE = (
    "abort",
    "sleeps",
    "off by 1e-2",
    "leaves the last row",
    "writes NaN",
    "fakes a result while loading",
    "stops after two calls",
    "leaves",
    "wrong shape",
)


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in _LATE)) for n in BAD_CPP])
def test_bad_cpp(executor: LocalExecutor, name: str) -> None:
    candidate, status, word = BAD_CPP[name]
    with limited(executor, replace(LIMITS, call_s=0.5) if status == "timeout" else LIMITS):
        result = measure(executor, candidate)
    assert result.status == status, result.log
    assert word in result.log
    assert result.speedup is None


def changed(old: str, new: str) -> Candidate:
    assert old in MODULE
    return Candidate(MODULE.replace(old, new), "python")


FORWARD = "return torch.softmax(x * self.weight + self.bias, dim=-1)"


@pytest.mark.parametrize(
    ("mark", "status"), [pytest.param("torch.compile", "ok", marks=pytest.mark.slow), ("nothing", "timeout")]
)
def test_a_module_that_uses_inductor_has_time_to_compile_in_its_first_call(
    executor: LocalExecutor, mark: str, status: str
) -> None:
    first = "import time; self.n = getattr(self, 'n', 0) + 1; time.sleep(0.5 * (self.n == 1))"
    slow = changed(FORWARD, f"{first}\n        {FORWARD}")
    marked = Candidate(f"{slow.source}\n# {mark}\n", "python")
    with limited(executor, replace(LIMITS, call_s=0.2, inductor_s=30.0)):
        assert measure(executor, marked).status == status


BAD_MODULES = {
    "raises": (changed(FORWARD, "raise RuntimeError('on purpose')"), "runtime_error", "on purpose"),
    "leaves": (changed(FORWARD, "import os; print('speedup 100'); os._exit(0)"), "crashed", "exit status 0"),
    "system exit": (changed(FORWARD, "raise SystemExit(0)"), "runtime_error", "SystemExit"),
    "wrong shape": (changed(FORWARD, "return x[0]"), "runtime_error", "the task returns"),
    "returns a lazy subclass": (
        changed(FORWARD, "return torch.nn.Parameter(x).as_subclass(type('T', (torch.Tensor,), {}))"),
        "runtime_error",
        "not a tensor",
    ),
    "takes all memory": (changed(FORWARD, "return torch.ones(1 << 40)[:1]"), "out_of_memory", ""),
    "passes the input through": (changed(FORWARD, "return x.clone()"), "incorrect", "tolerance"),
    "remembers its output": (
        changed(
            FORWARD,
            "self.y = getattr(self, 'y', None); self.y = self.y if self.y is not None else "
            "torch.softmax(x * self.weight + self.bias, dim=-1); return self.y",
        ),
        "incorrect",
        "output 0",
    ),
    "connects": (
        changed(FORWARD, "import socket; socket.create_connection(('127.0.0.1', 9), 1)"),
        "runtime_error",
        "Error",
    ),
    "writes outside": (changed(FORWARD, "open('/tmp/forewarp-escape', 'w')"), "runtime_error", "Error"),
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in _LATE)) for n in BAD_MODULES])
def test_bad_module(executor: LocalExecutor, name: str) -> None:
    candidate, status, word = BAD_MODULES[name]
    result = measure(executor, candidate)
    assert result.status == status, result.log
    assert word in result.log
    assert not Path("/tmp/forewarp-escape").exists()


@pytest.mark.slow
def test_the_next_candidate_is_unaffected(executor: LocalExecutor) -> None:
    assert measure(executor, BAD_CPP["segfault"][0]).status == "crashed"
    assert measure(executor, cpp()).status == "ok"


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    executor = LocalExecutor(detect_cpu(), cache=tmp_path / "file" / "cache", limits=LIMITS)
    try:
        with pytest.raises(WorkerError, match=r"compiled candidates cannot be kept under .*: Not a directory"):
            executor.compile(small_task(), cpp())
    finally:
        executor.close()


def test_a_reference_that_fails_is_the_tasks_error(executor: LocalExecutor) -> None:
    broken = small_task(REFERENCE.replace("torch.softmax", "torch.no_such_function"))
    with pytest.raises(TaskError, match="no_such_function"):
        executor.describe(broken)


@pytest.mark.parametrize("line", ["bytearray(1 << 50)", "torch.ones(1 << 45)[:1]"])
def test_a_reference_that_lacks_memory_while_it_is_described_is_told_so(executor: LocalExecutor, line: str) -> None:
    reference = (
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n"
        f"        {line}\n        return x + 1\ndef get_inputs():\n    return [torch.randn(8)]\n"
        "def get_init_inputs():\n    return []\n"
    )
    with pytest.raises(TaskError, match="memory") as caught:
        executor.describe(Task("large", "", reference, {"cpu": (Workload("main", {}),)}))
    assert caught.value.hint.startswith("choose a smaller shape")


def test_a_python_without_torch_is_named(tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
    bare.chmod(0o755)
    executor = LocalExecutor(detect_cpu(), python=str(bare))
    with pytest.raises(DeviceError, match="has no torch"):
        executor.probe()
    executor.close()


@pytest.mark.parametrize(
    ("torch_file", "said"),
    [
        ("raise ImportError('libcudart.so.12: cannot open shared object file')", "libcudart.so.12: cannot open"),
        ("def x(:", "SyntaxError: invalid syntax"),
        ("", "has no attribute 'set_grad_enabled'"),
    ],
)
def test_a_torch_that_is_broken_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, torch_file: str, said: str
) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(torch_file)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    executor = LocalExecutor(detect_cpu(), cache=tmp_path / "cache")
    with pytest.raises(DeviceError, match=f"torch of {sys.executable} cannot be loaded: .*{said}") as e:
        executor.probe()
    assert "\n" not in e.value.message
    executor.close()


def test_a_program_that_is_no_python_is_named() -> None:
    executor = LocalExecutor(detect_cpu(), python="/bin/ls")
    with pytest.raises(DeviceError, match="/bin/ls cannot measure: "):
        executor.probe()
    executor.close()


def test_closed_executor_says_so(tmp_path: Path) -> None:
    executor = LocalExecutor(detect_cpu(), cache=tmp_path)
    executor.close()
    executor.close()
    with pytest.raises(WorkerError, match="closed"):
        executor.probe()


def worker_of(executor: LocalExecutor) -> WorkerClient:
    return vars(executor)["_worker"]


def server_of(executor: LocalExecutor) -> ServerProcess:
    return vars(worker_of(executor))["_server"]


def test_closing_one_executor_ends_its_jobs_and_leaves_the_server_to_the_others(cpu_executor: LocalExecutor) -> None:
    cpu_executor.probe()
    process = vars(server_of(cpu_executor))["_process"]
    other = LocalExecutor(detect_cpu())
    assert server_of(other) is server_of(cpu_executor)
    before = {p.pid for p in watch.family([process.pid])}
    with ThreadPoolExecutor(1) as thread:
        described = thread.submit(other.describe, small_task(f"while True:\n    pass\n{REFERENCE}"))
        until = time.monotonic() + 60
        # Once the task's own process is there, which the job's starts, and the job is known to the executor.
        while len(watch.family([process.pid])) < len(before) + 2 or not vars(worker_of(other))["_sessions"]:
            assert time.monotonic() < until
            time.sleep(0.02)
        other.close()
        with pytest.raises(WorkerError, match="closed while it worked"):
            described.result(20)
    with pytest.raises(WorkerError, match="closed"):
        worker_of(other).run(ProbeJob(), 60.0)
    assert worker_of(cpu_executor).run(ProbeJob(), 60.0).answer
    assert vars(server_of(cpu_executor))["_process"] is process
    assert {p.pid for p in watch.family([process.pid])} == before


def test_servers_that_would_start_otherwise_and_sides_that_are_compared_are_not_shared(
    cpu_executor: LocalExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sides: list[LocalExecutor] = vars(AlternatingExecutors(detect_cpu(), ("python", "python")))["_executors"]
    elsewhere = LocalExecutor(detect_cpu(), cache=tmp_path)
    with monkeypatch.context() as patch:
        patch.setenv("FOREWARP_READABLE", str(tmp_path))
        freer = LocalExecutor(detect_cpu())
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)
        forked = LocalExecutor(detect_cpu())
    others = (*sides, elsewhere, freer, forked)
    try:
        assert len({id(server_of(e)) for e in (cpu_executor, *others)}) == 6
    finally:
        for executor in others:
            executor.close()


def test_the_last_executor_takes_the_server_with_it(tmp_path: Path) -> None:
    one, other = (LocalExecutor(detect_cpu(), cache=tmp_path) for _ in range(2))
    one.probe()
    process = vars(server_of(one))["_process"]
    one.close()
    one.close()
    assert process.poll() is None
    assert other.probe()["torch"]
    other.close()
    assert process.poll() is not None


def test_no_measurement_goes_on_beyond_the_end_that_it_is_given(cpu_executor: LocalExecutor) -> None:
    task = small_task()
    candidate = Candidate(f"import time\n{REFERENCE}\n\nModelNew = Model\ntime.sleep(60)\n", "python")
    build = cpu_executor.compile(task, candidate)
    cpu_executor.describe(task)
    begun = time.monotonic()
    with pytest.raises(TaskError, match="the deadline came before"), cpu_executor.until(begun + 1):
        cpu_executor.measure(task, candidate, build)
    assert time.monotonic() - begun < 30
