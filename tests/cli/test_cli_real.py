"""The command as a user runs it: its own process, the real CPU device, real signals."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support import dying, small_tasks

import forewarp
from forewarp.archive.store import Archive, default_path

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")

SPINS = "\n  for (volatile long i = 0; ; ++i) {}\n"
SEGFAULTS = "\n  *(volatile int*)0 = 1;\n"
IS_WRONG = "\n  y[0] += 0.01f;\n"
FAKES = '\n  printf("speedup: 9.0\\n"); fflush(stdout); _exit(0);\n'


@pytest.fixture
def task(tmp_path: Path) -> str:
    path = tmp_path / "small.py"
    path.write_text(small_tasks.REFERENCE)
    return str(path)


def kernel(folder: Path, **parts: str) -> str:
    path = folder / "kernel.cpp"
    path.write_text(small_tasks.cpp(**parts).source)
    return str(path)


def start(folder: Path, arguments: Sequence[str], *dies: str) -> subprocess.Popen[str]:
    """Start a command; `dies` are table, count and signals of one that sends itself some."""
    source = str(Path(forewarp.__file__).parents[1])
    program = [str(Path(dying.__file__)), *dies] if dies else ["-m", "forewarp.cli.main"]
    return subprocess.Popen(
        [sys.executable, *program, *arguments, "--device", "cpu", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": source},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any], str]:
    try:
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
    assert out.count("\n") == 1, out + err
    return process.returncode, json.loads(out), err


@pytest.mark.slow
def test_measures_a_kernel_for_a_file_of_ones_own(tmp_path: Path, task: str) -> None:
    exit_code, found, _ = finish(start(tmp_path, ["measure", task, kernel(tmp_path)]))
    assert (exit_code, found["status"], found["source"]) == (0, "ok", "measured")
    assert found["speedup"]["low"] <= found["speedup"]["ratio"] <= found["speedup"]["high"]
    assert found["protections"]
    assert {"compile", "spawn", "check", "time"} <= set(found["phases"])


@pytest.mark.slow
def test_measures_kernels_against_another_one(tmp_path: Path, task: str) -> None:
    anchor = Path(kernel(tmp_path)).rename(tmp_path / "anchor.cpp")
    wrong = Path(kernel(tmp_path, after=IS_WRONG)).rename(tmp_path / "wrong.cpp")
    good = kernel(tmp_path, before="\n  // the same, said otherwise\n")
    exit_code, found, _ = finish(start(tmp_path, ["measure", task, str(wrong), good, "--against", str(anchor)]))
    assert (exit_code, found["status"]) == (0, "ok")
    first, second = (k["result"] for k in found["kernels"])
    assert (first["status"], second["status"]) == ("incorrect", "ok")
    assert first["anchor"] == second["anchor"] not in ("reference", second["kernel"]["sha256"])
    assert second["checks"]
    (shape,) = second["workloads"]
    assert shape["control"]["low"] < shape["control"]["high"]
    assert shape["noise_percent"] > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "status"),
    [
        ({"before": " syntax error "}, "compile_error"),
        ({"before": SEGFAULTS}, "crashed"),
        ({"after": IS_WRONG}, "incorrect"),
        ({"before": SPINS}, "timeout"),
        ({"before": FAKES}, "crashed"),
    ],
)
def test_bad_kernels_are_answers(tmp_path: Path, task: str, parts: dict[str, str], status: str) -> None:
    exit_code, found, _ = finish(start(tmp_path, ["measure", task, kernel(tmp_path, **parts)]))
    assert (exit_code, found["status"], found["speedup"], found["error"]) == (3, status, None, None)


@pytest.mark.slow
def test_ctrl_c_prints_the_best_so_far(tmp_path: Path, task: str) -> None:
    arguments = ["optimize", task, "--seed-kernel", kernel(tmp_path), "--forecaster", "none", "--budget", "3"]
    # By the time the second one begins the first has a result.
    exit_code, found, err = finish(start(tmp_path, arguments, "measurement", "2", "SIGINT"))
    assert (exit_code, found["status"]) == (130, "interrupted")
    assert found["best"] is not None
    assert "stopping with the best so far" in err


@pytest.mark.slow
def test_ctrl_c_during_a_single_measurement_is_a_document_too(tmp_path: Path, task: str) -> None:
    process = start(tmp_path, ["measure", task, kernel(tmp_path, before=SPINS)])
    # It goes on for ten seconds, which one call may take.
    until(lambda: process.poll() is not None or begun())
    process.send_signal(signal.SIGINT)
    exit_code, found, err = finish(process)
    assert (exit_code, found["status"], found["error"]["code"]) == (130, "interrupted", "interrupted")
    assert "Traceback" not in err


def begun() -> bool:
    if not default_path().exists():
        return False
    with Archive(default_path()) as archive:
        return bool(archive.measurements())


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def running(text: str) -> bool:
    """Tell whether a process of this host has a text in its command line; one that has ended has no command line."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if text.encode() in (folder / "cmdline").read_bytes():
                return True
    return False


@pytest.mark.slow
def test_a_killed_run_is_resumed_and_leaves_no_process(tmp_path: Path, task: str) -> None:
    arguments = ["optimize", task, "--seed-kernel", kernel(tmp_path), "--forecaster", "none", "--budget", "3"]
    killed = start(tmp_path, arguments, "measurement", "2", "SIGKILL")
    killed.communicate(timeout=100)
    assert killed.returncode == -signal.SIGKILL
    with Archive(default_path()) as archive:
        (run,) = archive.runs()
    exit_code, found, _ = finish(start(tmp_path, ["resume", run.id]))
    assert (exit_code, found["status"], found["run_id"]) == (0, "finished", run.id)
    assert found["budget"]["spent"]["measurements"] == 3
    until(lambda: not running(str(tmp_path)))
