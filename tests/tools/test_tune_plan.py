"""Tunables of launch plans ranked without a GPU."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from forewarp.core.errors import CandidateError, UsageError
from forewarp.gpu_runner.compilers import nvrtc
from forewarp.tools.requests import TuneRequest
from forewarp.tools.tune_plan import tune_plan

TASK = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1
def get_inputs():
    return [torch.randn(1 << 22)]
def get_init_inputs():
    return []
"""
PLAN = """\
inputs = ["x"]
outputs = ["y"]
[tunables]
TILE = [32, 1024, 256]
[[launch]]
args = ["x", "y", "numel(x)"]
grid = ["cdiv(numel(x), TILE)"]
"""
TRITON = f'''"""forewarp
{PLAN}
kernel = "add"
"""
import triton
import triton.language as tl


@triton.jit
def add(x, y, n, TILE: tl.constexpr):
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)
'''
CUDA = f"""/*forewarp
{PLAN.replace("1024", "2048")}
kernel = "add<TILE>"
block = ["TILE"]
*/
template <int TILE> __global__ void add(const float* x, float* y, int n) {{
    int i = blockIdx.x * TILE + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
}}
"""


def request(folder: Path, name: str, source: str, **more: object) -> TuneRequest:
    (folder / "task.py").write_text(TASK)
    (folder / name).write_text(source)
    fields = {"file": str(folder / name), "task": str(folder / "task.py"), "target": "h200", "measure": 0}
    return TuneRequest.model_validate(fields | more)


@pytest.fixture(autouse=True)
def _archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("FOREWARP_ARCHIVE", str(tmp_path / "archive.db"))


def test_a_triton_plans_default_is_changed_to_the_choice_forecast_fastest(tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    found = tune_plan(request(tmp_path, "add.py", TRITON, table=str(table)))
    (kernel,) = found.kernels
    assert (kernel.kernel, kernel.considered, kernel.compiled, kernel.baseline) == ("add", 3, 0, "TILE=32")
    assert [c.configuration for c in kernel.configurations][-1] == "TILE=32"
    [row] = json.loads(table.read_text())["kernels"]
    assert (row["configuration"], row["speedup"]) == ({"TILE": 1024}, None)
    subprocess.run(["git", "apply", "-"], input=found.patch, text=True, check=True, cwd=tmp_path)
    assert "TILE = [1024, 32, 256]" in (tmp_path / "add.py").read_text()


@pytest.mark.skipif(nvrtc.library() is None, reason="needs NVRTC")
def test_choices_of_a_cuda_template_are_compiled_and_nothing_is_changed(tmp_path: Path) -> None:
    found = tune_plan(request(tmp_path, "add.cu", CUDA))
    (kernel,) = found.kernels
    assert found.summary.startswith("add: 2 of 3 choices compile")
    assert kernel.configurations[-1].configuration == "TILE=2048"
    assert "2048 threads" in kernel.configurations[-1].problem
    assert not found.patch
    assert (kernel.best, kernel.chosen_by, found.chosen()) == (None, "", [])
    assert all(c.registers for c in kernel.configurations[:2])
    with pytest.raises(UsageError, match="no best choice"):
        tune_plan(request(tmp_path, "add.cu", CUDA, table=str(tmp_path / "table.json")))


def test_it_is_said_when_not_all_choices_are_looked_at(tmp_path: Path) -> None:
    many = f"[{', '.join(map(str, range(32, 32 * 1200, 32)))}]"
    found = tune_plan(request(tmp_path, "add.py", TRITON.replace("[32, 1024, 256]", many)))
    assert found.problems == ["1,000 of 1,199 choices were looked at, drawn at random"]


@pytest.mark.parametrize(
    ("source", "more", "says"),
    [
        (CUDA, {"measure": 8}, "measured by a search"),
        (CUDA, {"calls": ["run"]}, "task says the calls"),
        (CUDA, {"deadline_s": 1.0}, "--compile how many"),
        (CUDA.replace("[32, 2048, 256]", "[32]"), {}, "nothing to choose from"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, source: str, more: dict[str, object], says: str) -> None:
    with pytest.raises((UsageError, CandidateError), match=says):
        tune_plan(request(tmp_path, "add.cu", source, **more))
