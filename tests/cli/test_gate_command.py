"""`forewarp gate` as people use it: lock, check, two environments, files for CI, kills, and what is missing."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from support.small_tasks import CUDA, REFERENCE, cpp

from forewarp.archive.store import Archive, default_path
from forewarp.cli.main import GROUPS, build_app, main
from forewarp.report import documents
from forewarp.tools.gate_lock import LockedKernel, write_lock
from forewarp.tools.requests import LOCK_NAME

ONE_SHAPE = REFERENCE.replace("ROWS, COLS = 64, 256", "ROWS, COLS = 16, 64")
HERE = sys.executable
Run = Callable[..., tuple[int, dict[str, Any]]]


def write_kernels(folder: Path) -> None:
    (folder / "problem.py").write_text(ONE_SHAPE)
    (folder / "softmax.cpp").write_text(cpp().source)
    (folder / "softmax.cu").write_text(CUDA)


@pytest.fixture(scope="module")
def lock_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lock of softmax.cu."""
    folder = tmp_path_factory.mktemp("lock")
    write_kernels(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("FOREWARP_ARCHIVE", str(folder / "archive.db"))
        assert main(["gate", "lock", "softmax.cu", "--task", "problem.py", "--device", "cpu"]) == 0
    return folder / LOCK_NAME


@pytest.fixture
def locked(run: Run, lock_file: Path) -> Run:
    """Run a command as `run` does, in a folder where softmax.cu is locked."""
    shutil.copy(lock_file, LOCK_NAME)
    return run


@pytest.fixture
def listed(run: Run) -> Run:
    """Run a command as `run` does, in a folder whose lock names softmax.cu, and knows nothing of its code."""
    about: dict[str, Any] = {"tunables": {}, "language": "cuda", "sha256": "1", "task": "problem.py"}
    write_lock(Path(LOCK_NAME), [LockedKernel(path="softmax.cu", compiled={"h200": []}, **about)])
    return run


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command with --json in a folder with a problem and its kernels; returns exit code and document."""
    monkeypatch.chdir(tmp_path)
    write_kernels(tmp_path)

    def call(*arguments: str) -> tuple[int, dict[str, Any]]:
        exit_code = main([*arguments, "--json"])
        document = json.loads(capsys.readouterr().out)
        kind = "error" if document["status"] == "error" else document["command"].replace(" ", "_")
        documents.DOCUMENTS[kind].model_validate(document)
        return exit_code, document

    return call


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {row["path"]: row["verdict"] for row in document["rows"]}


def test_help_of_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in GROUPS["gate"][1]:
        assert main(["gate", verb, "--help"]) == 0
    out = capsys.readouterr().out
    assert "--threshold" in out
    assert "--problem" in out
    assert main(["gate", "--help"]) == 0


@pytest.mark.slow
def test_what_got_worse_is_named_in_every_form(locked: Run, tmp_path: Path) -> None:
    # No verb is check, and there are no times to compare.
    exit_code, found = locked("gate", "--device", "none", "--no-check")
    assert (exit_code, found["status"], found["against"], found["device"]) == (0, "passed", "lock", None)
    assert verdicts(found) == {"softmax.cu": "same"}

    indexed = "int at[64]; for (int i = 0; i < 64; ++i) at[i] = i * cols; y[0] += 1e-30f * at[(cols * cols) % 64];"
    Path("softmax.cu").write_text(CUDA.replace("/*AFTER*/", indexed))
    flags = ("--junit", "out/junit.xml", "--markdown", "out/comment.md")
    exit_code, found = locked("gate", "check", "--device", "none", "--no-check", *flags)
    assert (exit_code, found["status"]) == (3, "worse")
    assert verdicts(found) == {"softmax.cu": "likely slower"}
    (row,) = found["rows"]
    assert any("local memory" in reason for reason in row["reasons"])
    assert "the source has changed since the lock" in row["changes"]
    suite = ElementTree.fromstring(Path("out/junit.xml").read_text())
    assert [suite.get(k) for k in ("tests", "failures", "errors", "skipped")] == ["1", "1", "0", "0"]
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert "likely slower" in failure.get("message", "")
    assert failure.get("type") == "likely slower"
    assert "**likely slower**" in Path("out/comment.md").read_text()
    assert [a["path"] for a in found["artifacts"]] == [str(tmp_path / "out" / n) for n in ("junit.xml", "comment.md")]

    Path("softmax.cu").write_text(CUDA.replace("extern", "extern extern"))
    exit_code, found = locked("gate", "check", "--device", "none")
    assert (exit_code, verdicts(found)) == (3, {"softmax.cu": "does not compile"})


@pytest.mark.slow
def test_a_wrong_kernel_is_found_on_the_cpu_without_its_device(locked: Run) -> None:
    Path("softmax.cu").write_text(CUDA.replace("/ sum;", "/ sum + 1;"))
    exit_code, found = locked("gate", "--device", "none")
    assert exit_code == 3
    assert verdicts(found) == {"softmax.cu": "wrong"}
    assert "CPU-emulated" in found["rows"][0]["reasons"][0]


@pytest.mark.slow
def test_what_a_budget_leaves_is_not_the_same(run: Run) -> None:
    lock = ("gate", "lock", "softmax.cu", "softmax.cpp", "--task", "problem.py", "--device", "cpu", "--no-measure")
    assert run(*lock)[0] == 0
    Path("softmax.cpp").write_text(cpp(after="y[0] = 7;").source)
    Path("softmax.cu").write_text(CUDA.replace("/ sum;", "/ sum + 1;"))
    exit_code, found = run("gate", "--device", "cpu", "--budget", "1", "--no-check")
    assert verdicts(found) == {"softmax.cpp": "wrong", "softmax.cu": "not compared"}
    assert (exit_code, found["measurements"]) == (3, 1)


def test_a_missing_task_says_nothing_of_the_kernel(listed: Run) -> None:
    Path("problem.py").unlink()
    exit_code, found = listed("gate", "--device", "none")
    assert (exit_code, found["status"]) == (75, "open")
    assert verdicts(found) == {"softmax.cu": "not compared"}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "said"),
    [
        (("gate", "check", "none.json"), 2, "none.json cannot be read"),
        (("gate", "problem.py"), 2, "is no lock"),
        (("gate", "--threshold", "much"), 2, "threshold"),
        (("gate", "--python", "a", "--python", "b", "--python", "c"), 2, "python"),
        (("gate", "--device", "none", "--python", "nowhere/python"), 69, "cannot be started"),
        (("gate", "--device", "cpu", "--python", "nowhere/python", "--python", HERE), 69, "cannot be started"),
    ],
)
def test_what_cannot_be_done_is_said(listed: Run, arguments: tuple[str, ...], exit_code: int, said: str) -> None:
    code, found = listed(*arguments)
    assert code == exit_code
    assert said in found["error"]["message"].replace("'", "")


def test_times_that_were_demanded_need_their_device(listed: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    code, found = listed("gate", "check", "--device", "cuda:63", "--python", HERE, "--python", HERE)
    assert (code, found["error"]["code"]) == (69, "device")


@pytest.mark.slow
def test_a_python_without_torch_is_named(run: Run) -> None:
    bare = getattr(sys, "_base_executable", sys.executable)
    if subprocess.run([bare, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
        pytest.skip("the base Python has torch")
    assert run("gate", "lock", "softmax.cpp", "--task", "problem.py", "--device", "cpu", "--no-measure")[0] == 0
    code, found = run("gate", "--device", "cpu", "--python", HERE, "--python", bare)
    assert code == 69
    assert "has no torch" in found["error"]["message"]


@pytest.mark.slow
def test_two_environments_within_a_budget_and_on_from_there(run: Run) -> None:
    lock = ("gate", "lock", "softmax.cpp", "--task", "problem.py", "--device", "cpu", "--no-measure")
    assert run(*lock)[0] == 0
    check = ("gate", "check", "--device", "cpu", "--python", HERE, "--python", HERE)
    code, found = run(*check, "--budget", "2")
    assert (code, found["status"], found["measurements"]) == (75, "interrupted", 2)
    assert found["rows"][0]["shapes"][0]["rounds"] == 1
    code, found = run(*check, "--budget", "4")
    assert (code, found["measurements"]) == (75, 4)
    assert [found["versions"][0]["python"], len(found["versions"])] == [found["versions"][1]["python"], 2]
    (shape,) = found["rows"][0]["shapes"]
    assert (shape["rounds"], shape["verdict"]) == (2, "too noisy")
    assert shape["ratio"]["low"] < shape["ratio"]["ratio"] < shape["ratio"]["high"]
    assert found["alarm_error"] == 0.05
    with Archive(default_path()) as archive:
        rows = archive.measurements()
        assert len(rows) == 4
        assert {row.anchor for row in rows} == {rows[0].candidate.sha256}
    # A kernel that fails is decided at once, and the check ends with it.
    Path("softmax.cpp").write_text(cpp(after="y[0] = 7;").source)
    code, found = run(*check)
    assert (code, verdicts(found)) == (3, {"softmax.cpp": "wrong"})
    assert "in the old environment, too" in found["rows"][0]["reasons"][0]


@pytest.mark.slow
def test_a_killed_check_goes_on(run: Run, tmp_path: Path) -> None:
    assert run("gate", "lock", "softmax.cpp", "--task", "problem.py", "--device", "cpu", "--no-measure")[0] == 0
    check = ["gate", "check", "--device", "cpu", "--python", HERE, "--python", HERE]
    begun = subprocess.Popen(
        [HERE, "-m", "forewarp.cli.main", *check], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
    )
    folder = default_path().parent / "gate"
    until = time.monotonic() + 120
    while not (folder.exists() and any(f.read_text().count("\n{") for f in folder.iterdir())):
        assert time.monotonic() < until
        time.sleep(0.05)
    begun.send_signal(signal.SIGKILL)
    begun.wait()
    kept = sum(f.read_text().count("log_ratios") for f in folder.iterdir())
    _, found = run(*check, "--budget", str(2 * kept + 2))
    assert found["measurements"] == 2 * kept + 2
    assert found["rows"][0]["shapes"][0]["rounds"] == kept + 1


@pytest.mark.slow
def test_the_lock_alone_on_the_same_device(run: Run) -> None:
    code, found = run("gate", "lock", "softmax.cpp", "--task", "problem.py", "--device", "cpu")
    if code or not found["kernels"][0]["measured"]:
        pytest.skip(f"too noisy here to be locked: {found['notes']}")
    (measured,) = found["kernels"][0]["measured"].values()
    assert measured["versions"]["torch"]
    Path("softmax.cpp").write_text(cpp(after="y[0] = 7;").source)
    code, found = run("gate", "--device", "cpu")
    assert (code, verdicts(found), found["measurements"]) == (3, {"softmax.cpp": "wrong"}, 1)


def test_the_commands_of_the_example_for_github_are_ones_that_the_gate_takes() -> None:
    flow = yaml.safe_load((Path(__file__).parents[2] / "examples" / "gate.yml").read_text())
    texts = [step["run"] for job in flow["jobs"].values() for step in job["steps"] if "run" in step]
    commands = [found[1] for text in texts if (found := re.search(r"forewarp (gate check .*)", text))]
    assert len(commands) == len(flow["jobs"])
    for command in commands:
        assert build_app().parse_args(shlex.split(command), exit_on_error=False, print_error=False)
