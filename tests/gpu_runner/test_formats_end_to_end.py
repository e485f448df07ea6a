"""Every format measured through the local executor: on the CPU device, and marked tests on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.shared_executors import limited
from support.small_tasks import WITHIN

from forewarp.core.values import Candidate, DeviceKind, Measurement, Task, Workload
from forewarp.gpu_runner.devices import detect_cuda
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMITS = Limits(compile_s=60, measure_s=60, call_s=5.0, memory=2 << 30, time_s=0.02, looks=(4,))


def shaped(task: Task, **constants: int) -> Task:
    """Return the task with one small workload in place of its own."""
    workloads = (Workload("small", constants),)
    kinds: tuple[DeviceKind, ...] = ("cpu", "cuda")
    return replace(task, workloads=dict.fromkeys(kinds, workloads))


@pytest.fixture(scope="module")
def executor(cpu_executor: LocalExecutor) -> Iterator[LocalExecutor]:
    with limited(cpu_executor, LIMITS) as made:
        yield made


@pytest.fixture
def gpu() -> Iterator[LocalExecutor]:
    target = detect_cuda()
    assert target is not None
    made = LocalExecutor(target, limits=LIMITS)
    yield made
    made.close()


def measure(executor: LocalExecutor, task: Task, candidate: Candidate) -> Measurement:
    return executor.measure(task, candidate, executor.compile(task, candidate))


def vectoradd() -> Task:
    return shaped(tasks.load(str(EXAMPLES / "gpumode_vectoradd")), size=10007)


SUBMISSION = candidates.load(EXAMPLES / "gpumode_vectoradd" / "submission.py")
PLAN = """/*forewarp
inputs = ["x", "y", "alpha", "out"]
outputs = ["out"]
function = "axpy"
args = ["x", "y", "alpha:f32", "out", "numel(x)"]
*/
"""
LOOP = "for (int i = 0; i < n; ++i) out[i] = x[i] + a * y[i];"
AXPY = f'{PLAN}extern "C" void axpy(const float* x, const float* y, float a, float* out, int n) {{ {LOOP} }}\n'
CUDA_AXPY = (
    PLAN
    + """#include <cuda_runtime.h>
__global__ void axpy_kernel(const float* x, const float* y, float a, float* out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] + a * y[i];
}
extern "C" void axpy(const float* x, const float* y, float a, float* out, int n) {
    axpy_kernel<<<(n + 255) / 256, 256>>>(x, y, a, out, n);
}
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["model_new.py", "problem.cpp"])
def test_a_kernelbench_file(executor: LocalExecutor, name: str) -> None:
    task = shaped(tasks.load(str(EXAMPLES / "problem.py")), ROWS=64, COLS=129)
    result = measure(executor, task, candidates.load(EXAMPLES / name))
    assert result.status == "ok", result.log


def test_a_kernelbot_folder(executor: LocalExecutor) -> None:
    result = measure(executor, vectoradd(), SUBMISSION)
    assert result.status == "ok", result.log
    assert [w.workload for w in result.workloads] == ["small"]
    assert result.environment["oracle"] == "the task's own check"


@pytest.mark.slow
def test_a_submission_may_leave_the_out_buffer_alone(executor: LocalExecutor) -> None:
    source = SUBMISSION.source.replace(", out=out)", ")")
    result = measure(executor, vectoradd(), replace(SUBMISSION, source=source))
    assert result.status == "ok", result.log


@pytest.mark.parametrize(
    ("old", "new", "status", "words"),
    [
        ('alpha=options["alpha"]', "alpha=0.7", "incorrect", "of 10007 elements differ"),
        pytest.param(
            *("return torch", "x.zero_()\n    return torch", "incorrect", "changed its input 0"), marks=pytest.mark.slow
        ),
        ("def custom_kernel", "def custom_kernel_2", "runtime_error", "custom_kernel"),
        pytest.param(
            *("return torch", "return out[:5], torch", "runtime_error", "the task returns"), marks=pytest.mark.slow
        ),
        ("return torch", "return None or 'text' or torch", "runtime_error", "not a tensor"),
    ],
)
def test_the_tasks_own_check_and_ours_reject(
    executor: LocalExecutor, old: str, new: str, status: str, words: str
) -> None:
    assert old in SUBMISSION.source
    result = measure(executor, vectoradd(), replace(SUBMISSION, source=SUBMISSION.source.replace(old, new)))
    assert result.status == status, result.log
    assert words in result.log


@pytest.mark.slow
def test_device_only_code_writes_the_buffer_that_the_reference_returns(executor: LocalExecutor) -> None:
    result = measure(executor, vectoradd(), candidates.from_source(AXPY, "cpp"))
    assert result.status == "ok", result.log
    short = candidates.from_source(AXPY.replace("i < n", "i < n - 1"), "cpp")
    assert measure(executor, vectoradd(), short).status == "incorrect"


@pytest.mark.slow
def test_a_plan_beside_the_file(executor: LocalExecutor, tmp_path: Path) -> None:
    table, _, code = AXPY.removeprefix("/*forewarp\n").partition("*/\n")
    (tmp_path / "axpy.toml").write_text(table)
    (tmp_path / "axpy.cpp").write_text(code)
    result = measure(executor, vectoradd(), candidates.load(tmp_path / "axpy.cpp"))
    assert result.status == "ok", result.log


IN_PLACE = """
import torch
import torch.nn as nn
SIZE = 1000
class Model(nn.Module):
    def forward(self, x, k):
        top = torch.topk(x, k).values
        x.relu_()
        return top
def get_inputs():
    return [torch.randn(3, SIZE), 5]
def get_init_inputs():
    return []
"""


@pytest.mark.slow
@pytest.mark.parametrize(("line", "status"), [("x.relu_()", "ok"), ("pass", "incorrect"), ("x.zero_()", "incorrect")])
def test_a_kernelbench_reference_that_writes_to_its_input(executor: LocalExecutor, line: str, status: str) -> None:
    default = (Workload("default"),)
    task = Task("in_place", "in place", IN_PLACE, {"cpu": default, "cuda": default})
    source = IN_PLACE.replace("class Model(", "class ModelNew(").replace("x.relu_()", line)
    result = measure(executor, task, Candidate(source, "python"))
    assert result.status == status, result.log


NESTED = """
import torch
def generate_input(n, seed):
    torch.manual_seed(seed)
    pairs = [(torch.randn(k, 4), torch.randn(4, k).T) for k in n]
    return {"pairs": pairs, "scale": 2}, "sum"
def ref_kernel(data):
    return [data[0]["scale"] * (a + b) for a, b in data[0]["pairs"]], data[0]["pairs"][0][0].sum()
def check_implementation(data, output):
    (first, second), total = output
    wanted = ref_kernel(data)
    return torch.allclose(first, wanted[0][0]) and torch.allclose(second, wanted[0][1]) and total.dim() == 0
"""


@pytest.mark.slow
def test_nested_data_and_results(executor: LocalExecutor) -> None:
    workloads = (Workload("groups", {"n": [3, 5]}),)
    kinds: tuple[DeviceKind, ...] = ("cpu", "cuda")
    task = Task("nested", "nested", NESTED, dict.fromkeys(kinds, workloads), format="gpumode", perturb=False)
    source = """
def custom_kernel(data):
    config, name = data
    assert name == "sum" and config["pairs"][0][1].stride() == (1, 3)
    results = [config["scale"] * b + config["scale"] * a for a, b in config["pairs"]]
    return {"results": tuple(results), "total": config["pairs"][0][0].sum()}
"""
    result = measure(executor, task, Candidate(source, "python"))
    assert result.status == "ok", result.log
    wrong = Candidate(source.replace('config["scale"] * b', "b"), "python")
    result = measure(executor, task, wrong)
    assert result.status == "incorrect", result.log
    assert "check_implementation" in result.log


@pytest.mark.gpu
class TestOnTheGpu:
    def test_host_code_runs_in_a_cell(self, gpu: LocalExecutor) -> None:
        result = measure(gpu, vectoradd(), candidates.from_source(CUDA_AXPY, "cuda"))
        assert result.status == "ok", result.log
        assert result.tier == "T1"
        wrong = candidates.from_source(CUDA_AXPY.replace("x[i] + a", "x[i] - a"), "cuda")
        assert measure(gpu, vectoradd(), wrong).status == "incorrect"

    def test_host_code_is_timed_until_the_device_is_done(self, gpu: LocalExecutor) -> None:
        spin = "for (long long t = clock64(); clock64() - t < 2000000;);"  # over a millisecond below 2 GHz
        slow = CUDA_AXPY.replace("const int i = blockIdx", f"{spin}\n    const int i = blockIdx")
        result = measure(gpu, vectoradd(), candidates.from_source(slow, "cuda"))
        assert result.status == "ok", result.log
        assert result.verdict == "slower"
        assert all(s > 0.9e-3 for w in result.workloads for s in w.candidate_s)

    def test_a_kernelbot_folder(self, gpu: LocalExecutor) -> None:
        result = measure(gpu, vectoradd(), SUBMISSION)
        assert result.status == "ok", result.log

    def test_a_reference_that_builds_a_module_on_the_host_is_lifted(self, gpu: LocalExecutor) -> None:
        task = Task("within", "within", WITHIN, {"cuda": (Workload("w", {"rows": 999, "cols": 64}),)}, format="gpumode")
        kernel = "def custom_kernel(data):\n    return data[0] @ data[1].t()"
        result = measure(gpu, task, candidates.from_source(kernel, "python"))
        assert result.status == "ok", result.log
        assert result.environment["anchor"] == "lifted"

    def test_device_only_code_writes_the_buffer_that_the_reference_returns(self, gpu: LocalExecutor) -> None:
        launch = '[[launch]]\nkernel = "axpy"\ngrid = ["cdiv(numel(x), 256)"]\nblock = [256]\nargs'
        source = CUDA_AXPY.replace('function = "axpy"\nargs', launch).partition('extern "C"')[0]
        source = source.replace("#include <cuda_runtime.h>\n", 'extern "C" ').replace("axpy_kernel", "axpy")
        result = measure(gpu, vectoradd(), candidates.from_source(source, "cuda"))
        assert result.status == "ok", result.log
        assert result.tier == "T0"
