"""Tuning a file's kernels without a GPU."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.autotuned_file import SOURCE

from forewarp.core.errors import CandidateError, UsageError
from forewarp.tools.requests import TuneRequest
from forewarp.tools.tune import TuneResult, tune_file


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tuned") / "scale.py"
    path.write_text(SOURCE)
    return path


@pytest.fixture(scope="module")
def tuned(kernel: Path) -> TuneResult:
    return tune_file(
        TuneRequest(
            file=str(kernel),
            calls=["run(1048576)", "run(n=4096)"],
            target="h200",
            compile=3,
            measure=0,
        )
    )


def test_each_call_is_forecast_and_compiled(tuned: TuneResult) -> None:
    assert [(k.kernel, k.call, k.key) for k in tuned.kernels] == [
        ("scale", "run(1048576)", {"N": 1048576}),
        ("scale", "run(n=4096)", {"N": 4096}),
    ]
    for found in tuned.kernels:
        assert (found.considered, found.measured, found.chosen_by) == (4, 0, "forecast")
        assert found.compiled in (3, 4)
        assert found.best.registers
        assert all(c.forecast >= 1.0 for c in found.configurations)
    assert tuned.kernels[0].best.configuration == "BLOCK=1024 num_warps=4 num_stages=3"


def test_the_patch_leaves_the_best_configurations(tuned: TuneResult, kernel: Path, tmp_path: Path) -> None:
    copy = tmp_path / "scale.py"
    copy.write_text(SOURCE)
    subprocess.run(["git", "apply", "-"], input=tuned.patch, text=True, check=True, cwd=tmp_path)
    assert 'configs=[triton.Config({"BLOCK": 1024}, num_warps=4, num_stages=3)' in copy.read_text()
    compile(copy.read_text(), "scale.py", "exec")


def test_a_table_has_the_best_of_each_call(kernel: Path, tmp_path: Path) -> None:
    for style, expected in (("forewarp", 2), ("vllm", 2)):
        out = tmp_path / f"{style}.json"
        request = TuneRequest(
            file=str(kernel),
            calls=["run(4096)", "run(8192)"],
            target="h200",
            compile=0,
            measure=0,
            table=str(out),
            format=style,
        )
        tune_file(request)
        document = json.loads(out.read_text())
        rows = document if style == "vllm" else document["kernels"]
        assert len(rows) == expected
    assert set(document) == {"4096", "8192"}
    evidence = json.loads((tmp_path / "vllm.evidence.json").read_text())
    assert evidence["command"].startswith("forewarp tune ")
    assert "--call 'run(8192)'" in evidence["command"]
    assert [k["key"] for k in evidence["kernels"]] == [{"N": 4096}, {"N": 8192}]
    assert set(document["4096"]) == {"BLOCK", "num_warps", "num_stages"}


BASE = """
import triton
import triton.language as tl


class OwnTuner(triton.runtime.Autotuner):
    def run(self, *args, **kwargs):
        raise RuntimeError("this library runs its kernels in a way of its own")


def own(configs, key):
    return lambda fn: OwnTuner(fn, fn.arg_names, configs, key, None, None)


SIZES = [triton.Config({"BLOCK": b}) for b in (32, 64, 1024)]
"""
MANY = """
import torch
import triton
import triton.language as tl
from .base import SIZES, own


def few(configs, arguments, **_):
    return [c for c in configs if c.kwargs["BLOCK"] != 1024]


@triton.autotune(SIZES, ["N"], prune_configs_by={"early_config_prune": few})
@triton.jit
def at_import(x, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < N) * 2.0, mask=i < N)


@own(SIZES, ["N"])
@triton.jit
def guessed(x, o, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < N) + 1.0, mask=i < N)


@triton.autotune(SIZES, ["N"])
@triton.jit
def refused(x, label, N, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), label)


at_import[lambda meta: (triton.cdiv(4096, meta["BLOCK"]),)](torch.ones(4096, device="cuda"), 4096)


def more(x: torch.Tensor):
    o = torch.empty_like(x)
    assert x.sum() > -1e9  # no value without values
    guessed[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, o, x.numel())
    return o


def broken(label: str):
    refused[(1,)](torch.ones(64, device="cuda"), label, 64)


def large(n):
    x = torch.ones(n, 1 << 20, device="cuda")
    return more.__globals__["at_import"][(1,)](x, x.numel())
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library") / "kernels" / "inner"
    folder.mkdir(parents=True)
    for path, text in (("../__init__.py", ""), ("__init__.py", ""), ("base.py", BASE), ("many.py", MANY)):
        (folder / path).write_text(text)
    return folder / "many.py"


def test_kernels_of_a_library_are_found_at_import_and_by_guessed_calls(library: Path) -> None:
    tuned = tune_file(TuneRequest(file=str(library), target="h200", compile=1, measure=0))
    first, third, second = sorted(tuned.kernels, key=lambda k: ("at_import", "refused", "guessed").index(k.kernel))
    assert (first.kernel, first.call, first.considered, first.guessed) == ("at_import", "import", 2, False)
    assert (second.kernel, second.considered, second.guessed) == ("guessed", 3, True)
    assert second.call.startswith("more(x=float32[")
    [problem] = tuned.problems
    assert problem.startswith("refused in broken(label='')")
    assert "no configuration compiles" in problem
    assert third.compiled == 0
    assert first.best.registers
    assert second.best.registers


def test_tensors_of_a_call_are_named_and_take_no_memory(library: Path) -> None:
    calls = ["more(float16[512, 512])", "large(1048576)"]
    tuned = tune_file(TuneRequest(file=str(library), calls=calls, target="h200", compile=0, measure=0))
    assert [(k.kernel, k.key, k.guessed) for k in tuned.kernels] == [
        ("guessed", {"N": 512 * 512}, False),
        ("at_import", {"N": 1 << 40}, False),
    ]


def test_configurations_beyond_the_files_own_are_told_and_not_chosen_unmeasured(kernel: Path) -> None:
    request = TuneRequest(file=str(kernel), calls=["run(1048576)"], target="h200", compile=4, measure=0, space=True)
    [found] = tune_file(request).kernels
    assert found.considered == 4 + found.proposed
    assert found.proposed > 10
    assert any(c.proposed and c.registers for c in found.configurations)
    assert not found.best.proposed
    assert found.best.registers


def test_after_the_deadline_nothing_is_compiled(kernel: Path) -> None:
    tuned = tune_file(TuneRequest(file=str(kernel), target="h200", measure=0, deadline_s=0.1))
    assert tuned.kernels[0].compiled == 0
    assert "0.1 s were over" in tuned.problems[0]


def test_without_a_gpu_nothing_can_be_measured(kernel: Path) -> None:
    with pytest.raises(UsageError, match="to measure on"):
        tune_file(TuneRequest(file=str(kernel), target="b200", measure=4))


def test_a_call_that_is_not_there_is_told(kernel: Path) -> None:
    with pytest.raises(CandidateError, match="no function walk"):
        tune_file(TuneRequest(file=str(kernel), calls=["walk"], target="h200", measure=0))


def test_a_file_without_autotuned_kernels_is_told(tmp_path: Path) -> None:
    plain = tmp_path / "plain.py"
    plain.write_text("def run():\n    return 1\n")
    with pytest.raises(CandidateError, match="launches an autotuned kernel"):
        tune_file(TuneRequest(file=str(plain), target="h200", measure=0))


def test_the_files_own_code_is_confined(kernel: Path) -> None:
    with pytest.raises(CandidateError, match="launches an autotuned kernel"):
        tune_file(TuneRequest(file=str(kernel), calls=["spy"], target="h200", measure=0))
    assert not Path("/etc/hostname.forewarp").exists()
