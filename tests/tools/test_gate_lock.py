"""The lock as a file: its form, what stays of what it held, and what is no lock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.small_tasks import CUDA, REFERENCE, cpp

from forewarp.core.errors import UsageError
from forewarp.core.values import Tolerance
from forewarp.tools.gate_lock import (
    GateLock,
    KernelAtHand,
    LockedKernel,
    LockedMeasurement,
    LockedOutput,
    lock_kernels,
    read_lock,
    write_lock,
)
from forewarp.tools.parts import Interval, Kernel, Place
from forewarp.tools.requests import GateLockRequest
from forewarp.tools.session import Executors


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "problem.py").write_text(REFERENCE)
    (tmp_path / "softmax.cu").write_text(CUDA)
    (tmp_path / "softmax.cpp").write_text(cpp().source)
    return tmp_path


@pytest.fixture(scope="module")
def executors() -> Iterator[Executors]:
    with Executors() as warm:
        yield warm


def request(folder: Path, *names: str, **fields: Any) -> GateLockRequest:
    fields = {"task": str(folder / "problem.py"), "out": str(folder / "lock.json"), "measure": False} | fields
    return GateLockRequest(kernels=[Kernel(path=str(folder / n)) for n in names], place=Place(device="cpu"), **fields)


def locked(path: str = "a.cu", **fields: Any) -> LockedKernel:
    about: dict[str, Any] = {"path": path, "tunables": {}, "language": "cuda", "sha256": "1", "task": "softmax"}
    return LockedKernel(**(about | fields))


def times(ratio: float) -> LockedMeasurement:
    interval = Interval(ratio=ratio, low=ratio, high=ratio)
    return LockedMeasurement(anchor="reference", speedup=interval, shapes=[], versions={}, date="2026-01-02")


def test_equal_locks_are_equal_files(tmp_path: Path) -> None:
    kernels = [locked("b.cu"), locked("a.cu", tunables={"Z": 1, "A": 2}), locked("a.cu")]
    write_lock(tmp_path / "one.json", kernels)
    write_lock(tmp_path / "other.json", kernels[::-1])
    text = (tmp_path / "one.json").read_text()
    assert text == (tmp_path / "other.json").read_text()
    assert text.endswith("}\n")
    assert [k.path for k in read_lock(tmp_path / "one.json").kernels] == ["a.cu", "a.cu", "b.cu"]
    assert list(json.loads(text)) == sorted(json.loads(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no lock of kernels"),
        ("[]", "is no lock of kernels"),
        ('{"kernels": [{"path": 3}]}', r"kernels\.0\.path"),
        ('{"kernels": [], "more": 1}', "more"),
        ('{"kernels": [], "schema_version": 99}', "version 99"),
    ],
)
def test_something_else_is_no_lock(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "lock.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        read_lock(path)


def test_a_missing_lock_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read") as raised:
        read_lock(tmp_path / "lock.json")
    assert "gate lock" in raised.value.hint


@pytest.mark.slow
def test_a_lock_holds_code_forecast_and_tolerances(folder: Path, executors: Executors) -> None:
    result = lock_kernels(request(folder, "softmax.cu", targets=["h200", "A100"]), executors=executors)
    assert not result.problems
    (kernel,) = read_lock(folder / "lock.json").kernels
    assert (kernel.path, kernel.task, kernel.language) == ("softmax.cu", "problem.py", "cuda")
    assert kernel.compiled.keys() == kernel.forecasts.keys() == {"h200", "a100"}
    (launch,) = kernel.compiled["h200"]
    assert launch.registers > 0
    assert launch.instructions
    assert kernel.outputs == [LockedOutput(dtype="float32", rtol=1e-4, atol=1e-4)]
    assert not kernel.measured


@pytest.mark.slow
def test_locking_again_is_the_same_file_and_keeps_other_kernels(folder: Path, executors: Executors) -> None:
    lock_kernels(request(folder, "softmax.cu"), executors=executors)
    once = (folder / "lock.json").read_text()
    lock_kernels(request(folder, "softmax.cu"), executors=executors)
    assert (folder / "lock.json").read_text() == once
    lock_kernels(request(folder, "softmax.cpp"), executors=executors)
    assert [k.path for k in read_lock(folder / "lock.json").kernels] == ["softmax.cpp", "softmax.cu"]


@pytest.mark.slow
def test_times_of_other_devices_stay_until_the_source_changes(folder: Path, executors: Executors) -> None:
    lock_kernels(request(folder, "softmax.cu"), executors=executors)
    path = folder / "lock.json"
    known = [k.model_copy(update={"measured": {"card": times(2.0)}}) for k in read_lock(path).kernels]
    write_lock(path, known)
    lock_kernels(request(folder, "softmax.cu", targets=["a100"]), executors=executors)
    (kernel,) = read_lock(path).kernels
    assert kernel.measured == {"card": times(2.0)}
    assert kernel.compiled.keys() == {"h200", "a100"}
    (folder / "softmax.cu").write_text(CUDA.replace("-1e30f", "-2e30f"))
    lock_kernels(request(folder, "softmax.cu", targets=["a100"]), executors=executors)
    (kernel,) = read_lock(path).kernels
    assert not kernel.measured
    assert kernel.compiled.keys() == {"a100"}


@pytest.mark.slow
def test_a_kernel_that_does_not_compile_is_not_locked(folder: Path, executors: Executors) -> None:
    (folder / "broken.cu").write_text(CUDA.replace("extern", "extern extern"))
    result = lock_kernels(request(folder, "broken.cu", "softmax.cu", "missing.cu"), executors=executors)
    assert [k.path for k in result.kernels] == ["softmax.cu"]
    assert [p.partition(":")[0] for p in result.problems] == [str(folder / n) for n in ("broken.cu", "missing.cu")]
    assert "does not compile for h200" in result.problems[0]


def test_a_loosened_task_is_judged_by_the_locked_tolerance(folder: Path, executors: Executors) -> None:
    strict = LockedOutput(dtype="", rtol=1e-6, atol=1e-6)
    assert KernelAtHand(locked(tolerance=strict), folder, executors).task.tolerance == Tolerance(1e-6, 1e-6)
    assert KernelAtHand(locked(), folder, executors).task.tolerance is None
    own = folder / "own"
    own.mkdir()
    (own / "task.toml").write_text('title = "x"\n[workloads.cpu]\na = {}\n[tolerance]\nrtol = 0.5\natol = 0.5\n')
    (own / "reference.py").write_text(REFERENCE)
    assert KernelAtHand(locked(task="own"), folder, executors).task.tolerance is None


def test_requests_that_make_no_sense_are_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="which task the kernels are for"):
        lock_kernels(request(folder, "softmax.cu", task=None))
    replayed = request(folder, "softmax.cu").model_copy(update={"place": Place(device="replay")})
    with pytest.raises(UsageError, match="measured, not looked up"):
        lock_kernels(replayed)
    assert not (folder / "lock.json").exists()


def test_the_empty_lock_is_one(tmp_path: Path) -> None:
    write_lock(tmp_path / "lock.json", [])
    assert read_lock(tmp_path / "lock.json") == GateLock(kernels=[])
