"""The local executor on an NVIDIA GPU: run with `pytest -m gpu` on a machine that has one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_tasks import CUDA, cuda, small_task

from forewarp.core.values import Candidate, Measurement, Task, Workload
from forewarp.gpu_runner.devices import detect_cpu, detect_cuda
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import task as tasks

pytestmark = pytest.mark.gpu

LIMITS = Limits(measure_s=60, call_s=5.0, time_s=0.1, looks=(6, 12))


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    target = detect_cuda()
    assert target is not None, "pytest -m gpu needs an NVIDIA GPU"
    made = LocalExecutor(target, limits=LIMITS, cache=tmp_path_factory.mktemp("builds"))
    yield made
    made.close()


def measure(executor: LocalExecutor, candidate: Candidate, task: Task | None = None) -> Measurement:
    task = task or small_task()
    return executor.measure(task, candidate, executor.compile(task, candidate))


def test_cuda_is_tier_zero(executor: LocalExecutor) -> None:
    result = measure(executor, cuda())
    assert result.status == "ok", result.log
    assert result.tier == "T0"


def test_a_kernelbench_module_is_lifted(executor: LocalExecutor) -> None:
    task = tasks.load("rmsnorm")
    module = Candidate(task.reference.replace("class Model(", "class ModelNew("), "python")
    result = measure(executor, module, task)
    assert result.status == "ok", result.log
    assert result.tier == "T0"
    assert result.lifting.startswith("lifted to")


def test_seeds_of_few_channels_round_as_the_reference_does_in_its_own_layout(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    reference = tmp_path / "few.py"
    reference.write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.conv = torch.nn.Conv2d(8, 64, 3)\n"
        "    def forward(self, x):\n        return torch.tanh(self.conv(x))\n"
        "def get_inputs():\n    return [torch.rand(16, 8, 128, 128)]\ndef get_init_inputs():\n    return []\n"
    )
    task = tasks.load(str(reference))
    (own,) = (s for s in executor.make_seeds(task) if "in the reference's own layout" in s.source)
    assert (result := measure(executor, own, task)).status == "ok", result.log


@pytest.mark.parametrize(
    ("code", "status", "word"),
    [
        ("y[cols - 1] *= 1.01f;", "incorrect", "tolerance"),
        ("if (blockIdx.x == 3) *(volatile int*)16 = 1;", "runtime_error", "illegal"),
        ("while (*(volatile float*)y != 2.0f) {}", "timeout", ""),
        ("const_cast<float*>(x)[0] = 0;", "incorrect", "changed its input"),
        ("this is no CUDA", "compile_error", "error"),
        ("__shared__ float much[100000]; much[threadIdx.x] = 1; y[0] = much[5];", "compile_error", "shared"),
    ],
)
def test_bad_cuda(tmp_path: Path, code: str, status: str, word: str) -> None:
    target = detect_cuda()
    assert target is not None
    quick = LocalExecutor(target, limits=Limits(measure_s=15, time_s=0.1, looks=(6,)), cache=tmp_path)
    try:
        result = measure(quick, cuda(code))
        assert result.status == status, result.log
        assert word in result.log
        # Whatever happened, the next candidate is measured as if nothing had.
        assert measure(quick, cuda()).status == "ok"
    finally:
        quick.close()


@pytest.mark.parametrize("language", ["cuda", "python"])
def test_timing_ends_early_only_where_it_cannot_win(tmp_path: Path, language: str) -> None:
    # Where the first shape alone seems hopeless and the second makes up for it, the first comes on stage again.
    target = detect_cuda()
    assert target is not None
    task = small_task()
    module = Candidate(task.reference.replace("class Model(", "class ModelNew("), "python")
    candidate = cuda() if language == "cuda" else module
    executor = LocalExecutor(target, cache=tmp_path)
    try:
        build = executor.compile(task, candidate)
        whole = executor.measure(task, candidate, build, beat=0.01)
        stopped = executor.measure(task, candidate, build, beat=1000.0)
        shapes = {w.workload: w.speedup for w in whole.workloads}
        assert whole.status == stopped.status == "ok", stopped.log
        assert not whole.stopped_early
        assert stopped.stopped_early
        assert stopped.high is not None
        assert stopped.high < 1000
        assert set(shapes) == {w.workload for w in stopped.workloads}
        assert all(len(w.candidate_s) < 2 * 100 for w in stopped.workloads)
        assert stopped.phases["time"] < whole.phases["time"]
        # The next one is measured as ever, with every shape in full.
        again = executor.measure(task, candidate, build, beat=0.97 * min(shapes.values()))
        assert again.status == "ok", again.log
        assert not again.stopped_early
    finally:
        executor.close()


def test_a_shape_that_was_left_comes_on_stage_again(tmp_path: Path) -> None:
    # The kernel gives each row to one warp: far better on many short rows than on few long ones.
    target = detect_cuda()
    assert target is not None
    workloads = (Workload("long", {"ROWS": 2, "COLS": 100000}), Workload("short", {"ROWS": 20000, "COLS": 64}))
    task = dataclasses.replace(small_task(), workloads={"cpu": workloads, "cuda": workloads})
    executor = LocalExecutor(target, cache=tmp_path)
    try:
        build = executor.compile(task, cuda())
        alone = executor.measure(task, cuda(), build)
        assert alone.status == "ok", alone.log
        assert alone.speedup is not None
        assert 2 * alone.workloads[0].speedup < alone.workloads[1].speedup
        result = executor.measure(task, cuda(), build, beat=0.8 * alone.speedup)
        assert result.status == "ok", result.log
        assert not result.stopped_early
        assert [w.workload for w in result.workloads] == ["long", "short"]
        assert all(w.control is not None for w in result.workloads)
    finally:
        executor.close()


def test_shared_memory_follows_each_workload(executor: LocalExecutor) -> None:
    # Of the two workloads the second one needs more: 4 · 20000 bytes against 4 · 256.
    workloads = (Workload("small"), Workload("large", {"ROWS": 33, "COLS": 20000}))
    task = dataclasses.replace(small_task(), workloads={"cpu": workloads, "cuda": workloads})
    staged = CUDA.replace("block = [32]", 'block = [32]\nshared = "4 * cols"')
    staged = staged.replace("float most", "extern __shared__ float row[];\n  float most")
    staged = staged.replace("x[c] * w[c] + bias - most) / sum", "row[c] - most) / sum")
    staged = staged.replace("most = fmaxf(most, x[c]", "most = fmaxf(most, row[c] = x[c]")
    result = measure(executor, Candidate(staged, "cuda"), task)
    assert result.status == "ok", result.log


@pytest.mark.parametrize("name", tasks.bundled())
def test_bundled_seeds_are_right(executor: LocalExecutor, name: str) -> None:
    task = tasks.load(name)
    for seed in task.seeds:
        if seed.language != "cpp":
            result = measure(executor, seed, task)
            assert result.status == "ok", f"{seed.language}: {result.log}"


DEPENDENT = """/*forewarp
inputs = ["x"]
outputs = ["y"]
[let]
n = "numel(x)"
[scratch]
twice = { dtype = "float32", shape = ["n"] }
[[launch]]
kernel = "double_all"
cooperative = true
args = ["x", "twice", "n"]
grid = [8]
block = [256]
[[launch]]
kernel = "add_one"
dependent = true
args = ["twice", "y", "n"]
grid = ["cdiv(n, 256)"]
block = [256]
*/
#include <cooperative_groups.h>
extern "C" __global__ void double_all(const float* x, float* y, int n) {
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) y[i] = x[i];
    cooperative_groups::this_grid().sync();
    for (int i = n - 1 - (blockIdx.x * 256 + threadIdx.x); i >= 0; i -= gridDim.x * 256) y[i] *= 2;
    asm volatile("griddepcontrol.launch_dependents;");
}
extern "C" __global__ void add_one(const float* x, float* y, int n) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
}
"""


def test_launches_that_synchronise_their_grid_and_that_begin_early_are_right(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    reference = tmp_path / "twice.py"
    reference.write_text(
        "import torch\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return 2 * x + 1\n"
        "def get_inputs():\n    return [torch.randn(50_000)]\ndef get_init_inputs():\n    return []\n"
    )
    assert measure(executor, Candidate(DEPENDENT, "cuda"), tasks.load(str(reference))).status == "ok"


def test_the_cpu_device_compiles_beside_a_gpu(tmp_path: Path) -> None:
    module = Path(__file__).parent.parent / "honest" / "kernels" / "sums_compiled.py"
    task = tasks.load(str(Path(__file__).parent.parent / "cheats" / "tasks" / "row_sums"))
    cpu = LocalExecutor(detect_cpu(), limits=LIMITS, cache=tmp_path)
    try:
        result = measure(cpu, Candidate(module.read_text(), "python"), task)
    finally:
        cpu.close()
    assert result.status == "ok", result.log


def test_seeds_of_inductor_are_right_and_have_its_blocks_as_tunables(executor: LocalExecutor) -> None:
    task = dataclasses.replace(small_task(), workloads={"cuda": (Workload("long", {"ROWS": 4096, "COLS": 4096}),)})
    generated, *_ = executor.make_seeds(task)
    assert "triton_heuristics.fixed_config" in generated.source
    assert {"K0_XBLOCK", "K0_WARPS"} <= generated.tunables.keys()
    result = measure(executor, generated, task)
    assert result.status == "ok", result.log
    assert result.lifting.startswith("lifted to")
