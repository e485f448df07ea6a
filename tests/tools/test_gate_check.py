"""Rows of a check: the order of verdicts, and changes of a kernel's file and task."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.small_tasks import CUDA, REFERENCE

from forewarp.core.values import Candidate
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools import gate_check
from forewarp.tools.gate_check import GateVerdict
from forewarp.tools.gate_lock import KernelAtHand, LockedKernel, LockedMeasurement
from forewarp.tools.gate_verdicts import OPEN, WORSE
from forewarp.tools.parts import Interval
from forewarp.tools.requests import GateCheckRequest
from forewarp.tools.session import Executors


def state(root: Path = Path(), **fields: object) -> gate_check._State:
    about: dict[str, object] = {
        "path": "softmax.cu",
        "tunables": {},
        "language": "cuda",
        "sha256": "",
        "task": "softmax",
    }
    return gate_check._State(KernelAtHand(LockedKernel.model_validate(about | fields), root, Executors()))


@pytest.mark.parametrize("first", gate_check.ORDER)
def test_the_worst_verdict_is_that_of_the_kernel(first: GateVerdict) -> None:
    found = state()
    for verdict in reversed(gate_check.ORDER[gate_check.ORDER.index(first) :]):
        found.say(verdict, f"because {verdict}", f"log of {verdict}")
    row = found.row()
    assert (row.verdict, row.reasons) == (first, [f"because {first}"])
    assert found.failed == (first in ("does not compile", "wrong") or "not compared" in found.reasons)


def test_what_nothing_was_found_of_is_not_compared() -> None:
    row = state().row()
    assert (row.verdict, len(row.reasons)) == ("not compared", 1)
    assert set(gate_check.ORDER) == {*WORSE, *OPEN, "same", "faster"}


def test_changed_files_are_told(tmp_path: Path) -> None:
    (tmp_path / "softmax.cu").write_text(CUDA)
    (tmp_path / "problem.py").write_text(REFERENCE)
    sha256, task = Candidate(CUDA, "cuda").sha256, tasks.load(str(tmp_path / "problem.py"))
    about = {"sha256": sha256, "task": "problem.py", "task_sha256": task.sha256}

    def noted() -> gate_check._State:
        found = state(tmp_path, **about)
        gate_check._note_source(found)
        return found

    assert not noted().changes
    (tmp_path / "softmax.cu").write_text(f"{CUDA}\n")
    (tmp_path / "problem.py").write_text(f"{REFERENCE}\n")
    assert [change.split(" has")[0] for change in noted().changes] == ["the source", "the task"]
    (tmp_path / "softmax.cu").unlink()
    assert noted().row().verdict == "does not compile"


LAUNCH = {
    "kernel": "k",
    "workload": "",
    "registers": 32,
    "local_bytes": 0,
    "shared_bytes": 0,
    "occupancy": 1.0,
    "instructions": {},
}


@pytest.mark.parametrize(
    ("compiled", "measured_here", "runs"),
    [({"h200": []}, False, True), ({"h200": [LAUNCH]}, False, False), ({}, False, False), ({}, True, True)],
)
def test_a_module_without_gpu_kernels_runs_on_a_cpu(
    compiled: dict[str, list[object]], measured_here: bool, runs: bool
) -> None:
    cpu = devices.detect_cpu()
    times = LockedMeasurement(
        anchor="reference", speedup=Interval(ratio=1.0, low=1.0, high=1.0), shapes=[], versions={}, date="2026-11-28"
    )
    locked = state(language="python", compiled=compiled, measured={cpu.name: times} if measured_here else {})
    check = gate_check._Check(GateCheckRequest(), [locked], cpu, lambda _: None, lambda: False)
    assert check._runs(locked.kernel) == runs


def test_machine_code_of_no_kernels_tells_nothing() -> None:
    found = state(language="python")
    gate_check._heed_code(found, "h200", [], [], launched=False)
    assert found.verdict == "not compared"
    gate_check._heed_code(found, "h200", [], [], launched=True)
    assert found.verdict == "same"
