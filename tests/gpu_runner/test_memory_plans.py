"""What a workload takes is reckoned before anything is allocated, and the reckoning holds."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from forewarp.core.errors import TaskError
from forewarp.core.values import Candidate, Signature, Target, Task, TensorSpec, Workload
from forewarp.gpu_runner.devices import known_targets
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.worker import memory
from forewarp.gpu_runner.worker.memory import Plan

GB = 10**9


def signature(elements: int, dtype: str = "float32", outputs: int | None = None) -> Signature:
    shape, made = (elements // 1000, 1000), ((outputs if outputs is not None else elements) // 1000, 1000)
    spec = TensorSpec("0", shape, dtype)
    return Signature("w", (spec,), {}, {}, (), (TensorSpec("0", made, dtype),), None, 0)


def test_elements_have_the_bytes_that_torch_gives_them() -> None:
    names = "float64 float32 float16 bfloat16 float8_e4m3fn int64 int32 int16 int8 uint8 bool complex64 complex128"
    for name in names.split():
        dtype: torch.dtype = getattr(torch, name)
        spec = TensorSpec("0", (3, 5), name)
        assert memory.bytes_of([spec]) == 15 * dtype.itemsize
        wide = 15 * (16 if dtype.is_complex else 8 if dtype.is_floating_point else dtype.itemsize)
        assert memory.bytes_of([spec], wide=True) == wide


def test_small_inputs_have_many_sets_and_large_ones_one() -> None:
    assert memory.plan(signature(1_000_000), "launched", "cuda", 80 * GB) == Plan(8)
    assert memory.ordinary(signature(300_000_000), "launched", "cuda").slots == 3
    assert memory.plan(signature(1_000_000), "cells", "cuda", 80 * GB) == Plan(3)
    assert memory.plan(signature(1_600_000_000), "launched", "cuda", 80 * GB) == Plan(1, lean=True)
    # The same workload takes one set on a card that has no room for eight.
    middling = signature(150_000_000)
    assert memory.plan(middling, "launched", "cuda", 80 * GB) == Plan(7)
    assert memory.plan(middling, "launched", "cuda", 8 * GB) == Plan(1, lean=True)


@pytest.mark.parametrize("how", ["launched", "cells", "validated"])
def test_less_is_never_needed_for_more(how: memory.How) -> None:
    for device in ("cuda", "cpu"):
        totals = [memory.needed(signature(n), Plan(1, lean=True), how, device).total for n in (10**6, 10**8, 10**9)]
        assert totals == sorted(totals)


def test_an_elementwise_problem_takes_five_times_its_inputs() -> None:
    # KernelBench's largest: 6.4 GB in, 6.4 GB out.
    large = signature(1_610_612_000)
    bytes_ = memory.bytes_of(large.inputs)
    need = memory.needed(large, memory.plan(large, "launched", "cuda", 80 * GB), "launched", "cuda")
    assert 4.0 * bytes_ < need.total < 5.4 * bytes_  # the rest does not grow with them
    for how in ("launched", "cells", "validated"):
        assert memory.refusal(large, how, "cuda", 80 << 30, "the H100") == ""


def test_what_does_not_fit_is_told_in_bytes() -> None:
    told = memory.refusal(signature(5_000_000_000), "launched", "cuda", 79 * GB, "NVIDIA H100")
    assert told.startswith("the workload w needs 10")
    assert "GB (expected values 6" in told
    assert "inputs 20.0" in told
    assert "of device memory, NVIDIA H100 has 79.0 GB; choose a smaller shape" in told
    assert memory.refusal(signature(5_000_000_000), "launched", "cuda", None, "a card") == ""


def groups(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_main_memory_is_what_kernel_and_control_groups_leave(tmp_path: Path) -> None:
    plain = {"proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n"}
    assert memory.host_available(groups(tmp_path / "a", plain)) == 8000 << 10
    two = {
        "proc/self/cgroup": "0::/outer/inner\n",
        "sys/fs/cgroup/outer/memory.max": "5000000",
        "sys/fs/cgroup/outer/memory.current": "4000000",
        "sys/fs/cgroup/outer/memory.stat": "anon 1\ninactive_file 500000\n",
        "sys/fs/cgroup/outer/inner/memory.max": "max",
        "sys/fs/cgroup/outer/inner/memory.current": "7",
    }
    assert memory.host_available(groups(tmp_path / "b", plain | two)) == 1_500_000
    one = {
        "proc/self/cgroup": "3:cpu:/x\n4:memory:/job\n",
        "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "3000000",
        "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "1000000",
    }
    assert memory.host_available(groups(tmp_path / "c", plain | one)) == 2_000_000
    assert memory.host_available(tmp_path / "nothing") is None


LARGE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 0.5

def get_inputs():
    return [torch.rand({rows}, 1 << 20)]

def get_init_inputs():
    return []
"""


def task(rows: int) -> Task:
    shape = (Workload("huge"),)
    return Task("large", "large", LARGE.format(rows=rows), {"cpu": shape, "cuda": shape})


MODULE = Candidate(LARGE.format(rows=1).replace("class Model(", "class ModelNew("), "python")


def test_a_shape_that_does_not_fit_is_refused_in_a_second(cpu_executor: LocalExecutor) -> None:
    huge = task(1 << 22)  # 16 TiB
    cpu_executor.describe(huge)  # starts the worker
    build = cpu_executor.compile(huge, MODULE)
    started = time.perf_counter()
    with pytest.raises(TaskError, match=r"whatever the candidate: the workload huge needs .* this machine has"):
        cpu_executor.measure(huge, MODULE, build)
    assert time.perf_counter() - started < 1.0
    with pytest.raises(TaskError, match=r"needs .* GB .* of main memory"):
        cpu_executor.validate(huge)
    # Where it has no meta form, drawing the inputs is refused, not ended by the kernel.
    drawn = replace(huge, reference=huge.reference.replace("relu(x)", "relu(x) + float(x[0, 0])"))
    with pytest.raises(TaskError, match="allocate"):
        cpu_executor.describe(drawn)


def test_a_cards_own_memory_counts_for_it(tmp_path: Path) -> None:
    card: Target = replace(known_targets()["h100"], memory_bytes=4 << 30)
    executor = LocalExecutor(card, cache=tmp_path)
    try:
        signatures = (replace(signature(2_000_000_000), workload="huge"),)
        assert "NVIDIA H100 SXM has 4.3 GB" in executor._too_large(signatures, "launched")  # pyright: ignore[reportPrivateUsage]
    finally:
        executor.close()


PEAK = """
import resource, sys
import torch
from forewarp.core.values import Workload
from forewarp.gpu_runner.worker import memory
from forewarp.gpu_runner.worker.guards import Guards
from forewarp.gpu_runner.worker.problem import Problem
from support.jobs import describe
from forewarp.gpu_runner.worker.stage import ArmBuffers, Stage

def peak():
    with open("/proc/self/status") as file:
        return int(next(line.split()[1] for line in file if line.startswith("VmHWM:"))) << 10

torch.set_grad_enabled(False)
source = sys.argv[1]
small = Problem.load(source.replace("(64,", "(2,"), Workload("w"), 0)
small.model("cpu")(*small.inputs(0, "cpu"))  # what torch loads with the first calls
signature = describe(source, Workload("w"))
plan = memory.Plan(int(sys.argv[2]), lean=sys.argv[3] == "lean")
before = peak()
problem, guarded = Problem.load(source, Workload("w"), 0), Guards("cpu")
slots = [[guarded.tensor(s.shape, torch.float32) for s in signature.inputs] for _ in range(plan.slots)]
outputs = [guarded.tensor(s.shape, torch.float32) for s in signature.outputs]
stage = Stage(problem, problem.model("cpu"), ArmBuffers(slots, outputs), None, lean=plan.lean)
names = []
for name in stage.cases(thorough=True):
    stage.prepare(0)
    torch.clamp(stage.slots[0][0], min=0.0, out=stage.outputs[0])
    stage.outputs[0].mul_(0.5)
    stage.spoil_inputs(0)
    stage.restore_inputs(0)
    assert stage.compare(0) <= 1.0
    names.append(name)
    if len(names) == 2:
        break
stage.redraw(0)
stage.touch(0)
print(peak() - before, memory.needed(signature, plan, "launched", "cpu").total, *names, sep="\\n")
"""


@pytest.mark.slow
@pytest.mark.timeout(1000)
def test_the_reckoning_holds_for_inputs_of_256_mb() -> None:
    made = subprocess.run(
        [sys.executable, "-c", PEAK, LARGE.format(rows=64), "1", "lean"],
        check=True,
        capture_output=True,
        text=True,
        timeout=900,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    seen, reckoned, *names = made.stdout.splitlines()
    assert 0.8 < int(seen) / int(reckoned) < 1.2, (seen, reckoned)
    assert names[:2] == ["fresh inputs", "inputs × 3"]
