"""Tuning a file's kernels without a GPU."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from forewarp.core.errors import CandidateError, UsageError
from forewarp.tools.requests import TuneRequest
from forewarp.tools.tune import TuneResult, tune_file

SOURCE = """
import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": b}, num_warps=w) for b in (32, 1024) for w in (1, 4)]


@triton.autotune(configs=CONFIGS, key=["N"])
@triton.jit
def scale(x, o, N, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < N) * 2.0, mask=i < N)


def run(n=4096):
    x = torch.randn(n, device="cuda")
    o = torch.empty_like(x)
    scale[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, o, n)
    return o


def spy():
    open("/etc/hostname.forewarp", "w").write("x")
    return run()
"""


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
    assert set(document["4096"]) == {"BLOCK", "num_warps", "num_stages"}


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
