"""`forewarp suite` as people use it: the table, the document, exit codes, Ctrl-C and kills on the CPU device."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support.suites import Kept, SuiteExecutor, kernel, problem, write

import forewarp
from forewarp.cli import exits
from forewarp.cli.main import main
from forewarp.report import documents
from forewarp.report.suite_tables import render
from forewarp.tools.suite import SuiteRequest, run_suite
from forewarp.tools.suite_results import SuiteResult

REFERENCE = """
import torch
import torch.nn as nn

ROWS = 64


class Model(nn.Module):
    def __init__(self, bias):
        super(Model, self).__init__()
        self.bias = bias

    def forward(self, x):
        return torch.softmax(x + self.bias, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, 256)]


def get_init_inputs():
    return [0.5]
"""
TOO_LARGE = REFERENCE.replace("torch.randn(ROWS, 256)", "[torch.randn(ROWS, 256)][1]")


def module(forward: str) -> str:
    made = REFERENCE.replace("class Model(", "class ModelNew(").replace("super(Model,", "super(ModelNew,")
    return made.replace("return torch.softmax(x + self.bias, dim=-1)", forward)


def made(folder: Path, **texts: str) -> SuiteResult:
    write(folder / "p", **{f"level1__{n}_{name}": problem("compiled 1.5") for n, name in enumerate("ab", 1)})
    write(folder / "p", **{"level1__9_" + "long_name_" * 8: problem("fails")})
    names = {"level_1_problem_1_sample_0_kernel": kernel("3.0"), "level_1_problem_1_sample_1_kernel": kernel("wrong")}
    write(folder / "k", **names, **{"9": kernel("1.0"), "88_\x1b]0;evil\x07": kernel("1.0")}, **texts)
    request = SuiteRequest(problems=str(folder / "p"), kernels=str(folder / "k"), output=str(folder / "out"))
    return run_suite(request, executors=Kept(SuiteExecutor()))


def shown(result: SuiteResult, width: int = 100) -> str:
    console = Console(width=width, record=True, markup=False, highlight=False, file=io.StringIO())
    render(result, console)
    return console.export_text()


def test_the_table_fits_100_columns_and_has_no_control_characters(tmp_path: Path) -> None:
    text = shown(made(tmp_path))
    *rest, path = text.splitlines()
    assert all(len(line) <= 100 for line in rest)
    assert path == f"record and tables: {tmp_path / 'out'}"  # in one piece, to be copied
    assert "\x1b" not in text
    assert "\x07" not in text
    lines = text.splitlines()
    assert lines[0].split() == ["problem", "kernel", "over", "eager", "[95", "%]", "over", "torch.compile", "verdict"]
    assert lines[1].split() == ["level1/1_a", "sample_0", "3×", "[2.94,", "3.06]", "2×", "[1.94,", "2.06]", "faster"]
    assert lines[2].split() == ["sample_1", "–", "–", "incorrect"]
    assert lines[3].split() == ["level1/2_b", "–", "–", "no", "kernel"]
    assert "problem failed: the reference of 9_long_name" in " ".join(text.split())
    assert "evil" in text
    assert "that of no problem" in text
    assert "best kernels" in text
    assert "one at random" in text
    assert "1 of 3 problems have a correct kernel" in text


def test_one_kernel_for_each_problem_needs_no_column_for_its_name(tmp_path: Path) -> None:
    write(tmp_path / "p", **{"1_a": problem()})
    request = SuiteRequest(problems=str(tmp_path / "p"), identical=True, output=str(tmp_path / "out"), limit=1)
    text = shown(run_suite(request, executors=Kept(SuiteExecutor())))
    assert text.splitlines()[0].split()[:3] == ["problem", "over", "eager"]
    assert "one at random" not in text
    assert "tie" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["p"], "either kernels or --identical"),
        (["nowhere", "--identical"], "no problem at nowhere"),
        (["p", "k"], "neither a folder nor a file"),
        (["p", "--identical", "--baselines", "triton"], "baselines.0 is 'triton'"),
        (["p", "--identical", "--limit", "0"], "limit"),
        (["p", "--identical", "--device", "replay"], "not looked up"),
    ],
)
def test_wrong_requests_end_with_code_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    says: str,
) -> None:
    monkeypatch.chdir(write(tmp_path, p__1_a=problem()))
    assert main(["suite", *arguments, "--json"]) == exits.USAGE
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["error"]["code"] in ("usage", "task")
    assert says in out + err


def run(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    source = str(Path(forewarp.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, "-m", "forewarp.cli.main", "suite", "p", *arguments, "--device", "cpu"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | {"PYTHONPATH": source},
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, dict[str, Any]]:
    try:
        out, err = process.communicate(timeout=110)
    finally:
        process.kill()
    assert out.count("\n") == 1, out + err
    documents.DOCUMENTS["suite"].model_validate_json(out)
    return process.returncode, json.loads(out)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_problems_that_fail_and_kernels_that_hang_or_crash_are_rows(tmp_path: Path) -> None:
    write(tmp_path / "p", **{"1_good": REFERENCE, "2_fails": TOO_LARGE})
    write(
        tmp_path / "k",
        **{
            "1_good__same": module("return torch.softmax(x + self.bias, dim=-1)"),
            "1_good__hangs": module("\n        while True: pass"),
            "1_good__crashes": module("import ctypes; ctypes.string_at(0)"),
            "1_good__wrong": module("return x"),
            "2_fails": module("return x"),
        },
    )
    arguments = ("k", "--baselines", "eager", "--json")
    code, found = finish(run(tmp_path, *arguments))
    assert code == exits.OK
    rows = {r["kernel"]: r["status"] for r in found["rows"]}
    assert rows == {
        "1_good/crashes.py": "crashed",
        "1_good/hangs.py": "timeout",
        "1_good/same.py": "ok",
        "1_good/wrong.py": "incorrect",
        "2_fails.py": "problem_failed",
    }
    assert "IndexError" in found["rows"][-1]["log"]
    assert finish(run(tmp_path, *arguments))[1]["rows"] == found["rows"]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_suite_goes_on_where_it_was(tmp_path: Path) -> None:
    write(tmp_path / "p", **{f"{n}_p": REFERENCE.replace("ROWS = 64", f"ROWS = {60 + n}") for n in range(4)})
    arguments = ("--identical", "--baselines", "eager", "--output", "out")
    killed = run(tmp_path, *arguments)
    lines = tmp_path / "out" / "results.jsonl"
    until(lambda: lines.exists() and lines.read_bytes().count(b"\n") >= 2)
    killed.kill()
    killed.communicate()
    kept = lines.read_bytes().splitlines(keepends=True)[:2]
    code, found = finish(run(tmp_path, *arguments, "--json"))
    assert (code, found["status"], found["statuses"]) == (exits.OK, "finished", {"ok": 4})
    assert lines.read_bytes().splitlines(keepends=True)[:2] == kept
    assert len(lines.read_bytes().splitlines()) == 4


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_ctrl_c_prints_the_table_so_far(tmp_path: Path) -> None:
    write(tmp_path / "p", **{f"{n}_p": REFERENCE.replace("ROWS = 64", f"ROWS = {60 + n}") for n in range(4)})
    process = run(tmp_path, "--identical", "--baselines", "eager", "--output", "out", "--json")
    lines = tmp_path / "out" / "results.jsonl"
    until(lambda: lines.exists() and b"\n" in lines.read_bytes())
    process.send_signal(signal.SIGINT)
    code, found = finish(process)
    assert (code, found["status"]) == (exits.INTERRUPTED, "interrupted")
    assert found["statuses"]["ok"] + found["statuses"]["not_measured"] == 4
    assert "run the same command again" in found["summary"]


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_reference_is_measured_under_torch_compile(tmp_path: Path) -> None:
    write(tmp_path / "p", **{"1_p": REFERENCE})
    process = run(tmp_path, "--identical", "--output", "out", "--json")
    code, found = finish(process)
    assert code == exits.OK
    (compiled,) = found["compiled"]
    assert (compiled["status"], found["rows"][0]["status"]) == ("ok", "ok"), compiled["log"]
    assert compiled["speedup"]["ratio"] > 0
    assert found["rows"][0]["compile"] is not None


def until(condition: Any) -> None:
    end = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
