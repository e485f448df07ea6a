"""No honest kernel may be turned down or called suspicious, of whatever kind it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from cheats import zoo
from honest import roster
from honest.roster import Kernel
from support.shared_executors import limited

from forewarp.core.values import DeviceKind
from forewarp.gpu_runner.devices import detect_cuda, known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor

LIMITS = replace(zoo.LIMITS, compile_s=110, call_s=60, measure_s=110, memory=8 << 30)


def chosen(kind: DeviceKind) -> list[Any]:
    """Return the kernels for a device; in the default tests one must do on the CPU."""
    there = [k for k in roster.kernels() if k.runs_on(kind)]
    late = [k.builds or (kind == "cpu" and k.id != "scores_packed_weights.py") for k in there]
    return [pytest.param(k, id=k.id, marks=[pytest.mark.slow] * slow) for k, slow in zip(there, late, strict=True)]


@pytest.fixture(scope="module")
def cpu(cpu_executor: LocalExecutor) -> Iterator[LocalExecutor]:
    with limited(cpu_executor, LIMITS, compiling=True) as made:
        yield made


@pytest.fixture(scope="module")
def cuda() -> Iterator[LocalExecutor]:
    target = detect_cuda()
    assert target is not None, "pytest -m gpu needs an NVIDIA GPU"
    made = LocalExecutor(target, limits=LIMITS)
    yield made
    made.close()


def check(executor: LocalExecutor, kernel: Kernel) -> None:
    result = roster.measure(executor, kernel)
    # Tests share their processors with whatever else runs; `benchmarks/trust.py` counts every doubt.
    for _ in range(2):
        if result.status != "ok" or roster.is_believed(result):
            break
        result = roster.measure(executor, kernel)
    loud = (zoo.NOT_TRUSTED, "ambiguous") if executor.target.kind == "cpu" else (zoo.NOT_TRUSTED,)
    # On a CPU, which has no second clock, only the anchor against itself can be ambiguous.
    if zoo.verdict_of(result) in loud:
        pytest.skip(result.summary)  # the machine is too loud, which says nothing of the kernel
    assert roster.is_believed(result), zoo.told(result)


@pytest.mark.parametrize("kernel", chosen("cpu"))
def test_honest_on_the_cpu(cpu: LocalExecutor, kernel: Kernel) -> None:
    check(cpu, kernel)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", chosen("cuda"))
def test_honest_on_cuda(cuda: LocalExecutor, kernel: Kernel) -> None:
    check(cuda, kernel)


class TestRoster:
    def test_there_are_enough_for_each_device(self) -> None:
        for kind in ("cpu", "cuda"):
            assert sum(k.runs_on(kind) for k in roster.kernels()) >= 25
        assert len(roster.kernels()) >= 50

    def test_each_has_a_name_of_its_own(self) -> None:
        assert len({(k.task, k.id) for k in roster.kernels()}) == len(roster.kernels())

    def test_every_source_is_in_the_catalogue(self) -> None:
        named = {k.file for k in roster.kernels() if k.file}
        assert named == {p.name for p in roster.SOURCES.iterdir() if p.is_file()}

    @pytest.mark.slow
    def test_device_only_kernels_compile(self) -> None:
        executor = LocalExecutor(known_targets()["h200"], limits=zoo.LIMITS)
        try:
            for kernel in [k for k in roster.kernels() if k.runs_on("cuda") and k.file.endswith((".cu", "_triton.py"))]:
                build = executor.compile(roster.task_of(kernel.task), kernel.candidate())
                assert build.status == "ok", f"{kernel.id}: {build.log}"
        finally:
            executor.close()
