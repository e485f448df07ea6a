"""Kernels that are inspected for GPUs that are not there, by the real compilers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from forewarp.core.errors import UsageError
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.inspect_kernel import InspectRequest, InspectResult, choose_target, inspect_kernels
from forewarp.tools.parts import Kernel

pytest.importorskip("torch")
pytest.importorskip("triton")

SEEDS = tasks.BUNDLED / "softmax" / "seeds"
MODULE = """
import torch, triton, triton.language as tl
import torch.nn as nn

@triton.jit
def rows(x, y, cols, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * cols + c, mask=c < cols, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + tl.program_id(0) * cols + c, e / tl.sum(e, 0), mask=c < cols)

class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=8)
        return y.mul_(1.0)
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _own_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWARP_CACHE", str(cache))


def inspected(*kernels: Kernel, target: str = "h200") -> InspectResult:
    return inspect_kernels(InspectRequest(task="softmax", kernels=list(kernels), target=target))


@pytest.mark.parametrize("suffix", [".cu", pytest.param(".py", marks=pytest.mark.slow)], ids=["cuda", "triton"])
def test_a_kernel_and_one_that_does_not_compile(suffix: str, tmp_path: Path) -> None:
    broken = tmp_path / f"broken{suffix}"
    old, new = {".py": ("tl.load(", "tl.lode("), ".cu": ("__syncthreads(", "__syncthredds(")}[suffix]
    text = (SEEDS / f"softmax{suffix}").read_text()
    assert old in text
    broken.write_text(text.replace(old, new))
    one, wrong = (found := inspected(Kernel(path=str(SEEDS / f"softmax{suffix}")), Kernel(path=str(broken)))).kernels
    assert (one.status, wrong.status) == ("ok", "compile_error")
    assert new.rstrip("(").removeprefix("tl.") in wrong.log
    assert found.summary == "1 of 2 kernels is not sound."
    assert [w.workload for w in one.workloads] == ["vocabulary", "attention", "odd"]
    launch = one.workloads[0].launches[0]
    assert launch.grid is not None
    assert 0 < launch.registers <= 255
    assert 0 < (launch.occupancy or 0) <= 1
    assert launch.instructions["special"] > 0
    assert one.facts["waves"] > 0
    # 1.05 GB to move; the output stays in the L2 cache as far as it fits.
    assert one.workloads[0].floors_us["h200"] == pytest.approx((1048576000 - (60 << 20)) / 4.8e6)
    assert one.workloads[0].floors_us["l40s"] > one.workloads[0].floors_us["b200"]


def test_the_second_time_it_comes_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*command: object, **more: object) -> None:
        pytest.fail(f"a process is started: {command}")

    kernel = Kernel(path=str(SEEDS / "softmax.cu"))
    first = inspected(kernel).kernels[0]
    monkeypatch.setattr(subprocess, "Popen", start)
    again = inspected(kernel).kernels[0]
    assert again.cached
    assert again.workloads == first.workloads


@pytest.mark.slow
def test_another_target_has_another_occupancy() -> None:
    kernel = Kernel(path=str(SEEDS / "softmax.cu"), tunables={"THREADS": 1024})
    found = {t: inspected(kernel, target=t).kernels[0].workloads[0].launches[0] for t in ("h200", "rtx4090")}
    assert found["h200"].occupancy == 1.0
    assert found["rtx4090"].occupancy == pytest.approx(32 / 48)


@pytest.mark.slow
def test_a_module_is_traced() -> None:
    (kernel,) = inspected(Kernel(source=MODULE, language="python")).kernels
    assert kernel.how.startswith("traced")
    launch = kernel.workloads[1].launches[0]
    assert (launch.kernel, launch.grid, launch.block) == ("rows", (32768, 1, 1), (256, 1, 1))
    assert any("mul" in call for call in kernel.workloads[1].calls)


def test_kernels_of_no_task_need_one(tmp_path: Path) -> None:
    (tmp_path / "a.cu").write_text("")
    with pytest.raises(UsageError, match="which task the kernels are for"):
        inspect_kernels(InspectRequest(kernels=[Kernel(path=str(tmp_path / "a.cu"))], target="h200"))


def test_what_cannot_be_read_is_said() -> None:
    (kernel,) = inspected(Kernel(path="/nowhere/kernel.cu")).kernels
    assert kernel.status is None
    assert "/nowhere/kernel.cu cannot be read" in kernel.log


def test_an_unknown_target_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="rtx3090") as e:
        choose_target("rtx3090")
    assert "rtx4090" in (e.value.hint or "")
