"""`forewarp inspect`: what it prints and what it refuses."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from forewarp.cli.main import main
from forewarp.core.checking import CheckedWorkload, Finding
from forewarp.gpu_runner.formats import task as tasks
from forewarp.report import documents, inspect_tables
from forewarp.tools.inspect_kernel import (
    CpuCheck,
    InspectResult,
    KernelInspection,
    LaunchFacts,
    WorkloadFacts,
)
from forewarp.tools.parts import Device, KernelId

LAUNCH = LaunchFacts(
    kernel="softmax",
    grid=(264, 2, 1),
    block=(256, 1, 1),
    times=3,
    registers=64,
    local_bytes=0,
    static_shared_bytes=1024,
    dynamic_shared_bytes=0,
    code_bytes=4096,
    occupancy=0.5,
    blocks_per_processor=4,
    limiter="registers",
    waves=1.0,
    tail=0.0,
    instructions={"fp32": 40, "global_load": 4, "branch": 2},
    loop_instructions={"fp32": 20},
    widths={"global_load.128": 4},
)
SHAPE = WorkloadFacts(
    workload="wide",
    bytes_moved=1048576000,
    flops=None,
    floors_us={"h200": 205.0, "a100": 493.0},
    bound="memory",
    launches=[LAUNCH],
    calls=["mul(4096×4096 float32)"],
)
CHECK = CpuCheck(
    how="CPU-interpreted",
    status="incorrect",
    message="the outputs differ",
    workloads=[CheckedWorkload("wide", {"ROWS": 37}, programs=37, grid=37, error=12.5)],
    findings=[Finding("out of bounds", "softmax, line 12", "reads past x", 4)],
    faults=1,
    seconds=1.0,
)
KERNEL = KernelInspection(
    path="/some/where/softmax.py",
    kernel=KernelId(sha256="ab", short="ab", language="triton", tunables={}),
    status="ok",
    how="compiled from its launch plan",
    workloads=[SHAPE],
    problems=["softmax launches 3 blocks for 132 multiprocessors"],
    check=CHECK,
    seconds=0.4,
)


def shown(*kernels: KernelInspection, full: bool = False) -> str:
    console = Console(file=io.StringIO(), width=100, markup=False, highlight=False)
    device = Device(name="NVIDIA H200", kind="cuda", arch="sm_90")
    result = InspectResult(summary="s", task="softmax", target=device, target_source="sheet", kernels=list(kernels))
    inspect_tables.render(result, console, full=full)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_kernel_is_shown_with_launches_instructions_floor_problems_and_check() -> None:
    text = shown(KERNEL)
    assert "softmax.py · softmax · NVIDIA H200 (sm_90)" in text
    assert "264·2 × 256, 3 times" in text
    assert "50% (registers)" in text
    assert "46 instructions, 20 in loops: fp32 40, global load 4 (4 of 128 bits)" in text
    assert "branch" not in text
    assert "205 µs on h200 (memory); 1.05 GB to move" in text
    assert "a100" not in text
    assert "problem: softmax launches 3 blocks" in text
    assert "CPU-interpreted: incorrect. the outputs differ" in text
    assert "ROWS=37, 37 of 37 programs, error 12.5 of the tolerance" in text
    assert "out of bounds at softmax, line 12: reads past x (seen 4 times)" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_right_outputs_with_a_fault_are_no_all_clear() -> None:
    lucky = CHECK.model_copy(update={"status": "ok", "message": ""})
    assert not KERNEL.model_copy(update={"check": lucky}).sound
    assert "CPU-interpreted: ok, but 1 fault." in shown(KERNEL.model_copy(update={"check": lucky}))
    slow = lucky.model_copy(update={"findings": [], "faults": 0})
    assert KERNEL.model_copy(update={"check": slow}).sound


def test_everything_is_shown_on_demand() -> None:
    text = shown(KERNEL, full=True)
    assert "branch 2" in text
    assert "493 µs on a100" in text
    assert "sheet" in text


def test_what_the_running_program_alone_knows_is_a_question_mark() -> None:
    unknown = LAUNCH.model_copy(update={"grid": None, "occupancy": None, "waves": None, "tail": None, "times": 1})
    text = shown(KERNEL.model_copy(update={"workloads": [SHAPE.model_copy(update={"launches": [unknown]})]}))
    assert "? × 256" in text


def test_a_failed_kernel_shows_its_log() -> None:
    failed = KernelInspection(path="a.cu", kernel=None, status="compile_error", log="error: no such thing", seconds=0.1)
    assert "error: no such thing" in shown(failed)


@pytest.mark.slow
def test_json_fits_its_schema_and_the_task_is_that_of_the_folder(capsys: pytest.CaptureFixture[str]) -> None:
    seed = tasks.BUNDLED / "rmsnorm" / "seeds" / "rmsnorm.cu"
    assert main(["inspect", str(seed), "--target", "a100", "--json"]) == 0
    document = documents.DOCUMENTS["inspect"].model_validate(json.loads(capsys.readouterr().out))
    assert document.task == "rmsnorm"
    assert document.target.arch == "sm_80"
    assert document.kernels[0].status == "ok"


def test_without_a_task_it_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kernel.cu").write_text("")
    assert main(["inspect", str(tmp_path / "kernel.cu")]) == 2
    assert "--task" in capsys.readouterr().err
