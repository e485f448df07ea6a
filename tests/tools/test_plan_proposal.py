"""Launch plans that are proposed for kernels without one: they fit the kernel, the task, and the compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.core.errors import CandidateError, PlanMissingError
from forewarp.core.values import Candidate, Signature, TensorSpec
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.forecast_kernel import forecast_kernel
from forewarp.tools.gate_lock import lock_kernels
from forewarp.tools.measure_kernel import measure_kernel, measure_kernels
from forewarp.tools.parts import Kernel, Place
from forewarp.tools.plan_proposal import proposed
from forewarp.tools.requests import ForecastRequest, GateLockRequest, MeasureManyRequest, MeasureRequest, SuiteRequest
from forewarp.tools.session import closing_executors
from forewarp.tools.suite import run_suite

BY_THREAD = """\
#include <cuda_runtime.h>
__global__ void rms(float* input, float* output, const float* gamma, long rows, long dim, float eps) {
    long row = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float* out = output + row * dim;
    float sum = 0;
    for (int i = 0; i < dim; i++) sum += input[row * dim + i] * input[row * dim + i];
    for (int i = 0; i < dim; i++) out[i] = input[row * dim + i] * rsqrtf(sum / dim + eps) * gamma[i];
}
"""
BY_ROW = """\
import triton
import triton.language as tl

@triton.jit
def rms(X, Y, W, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    Y += row * stride
    x = tl.load(X + row * stride + cols, mask=cols < N, other=0.0)
    w = tl.load(W + cols, mask=cols < N)
    tl.store(Y + cols, x * tl.rsqrt(tl.sum(x * x, 0) / N + eps) * w, mask=cols < N)
"""
PRODUCT = """\
import triton
import triton.language as tl

@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
            BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr):
    pid = tl.program_id(axis=0)
    pid_m, pid_n = pid // tl.cdiv(N, BLOCK_N), pid % tl.cdiv(N, BLOCK_N)
    m, n = pid_m * BLOCK_M + tl.arange(0, BLOCK_M), pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        total += tl.dot(tl.load(a_ptrs), tl.load(b_ptr + (start + k)[:, None] * N + n[None, :]))
        a_ptrs += BLOCK_K * stride_ak
    tl.store(c_ptr + m[:, None] * N + n[None, :], total)
"""
TEMPLATE = """\
template <const int BM, const int BN, int TM = 8, typename T>
__global__ void __launch_bounds__((BM * BN) / TM, 1) product(int M, int N, int K, const T *A, const T *B, T *C) {
    A += blockIdx.y * BM * K;
    C += blockIdx.y * BM * N + blockIdx.x * BN;
    C[threadIdx.x] = A[threadIdx.x] * B[blockIdx.x * BN];
}
template __global__ void product<64, 32, 8, float>(int, int, int, const float *, const float *, float *);
template __global__ void product<32, 64, 4, float>(int, int, int, const float *, const float *, float *);
"""
HOST = """\
__global__ void k(const float* x, float* y, int n) {}
extern "C" void solve(const float* x, float* y, int n) { k<<<n, 1>>>(x, y, n); }
"""
LAUNCHER = (
    f"import torch\n{BY_ROW}\ndef softmax(x):\n    y = x.clone()\n    rms[(4,)](x, y, x, 4, 4, 0.0)\n    return y\n"
)
SOFTMAX = """\
#include <cmath>
extern "C" void softmax(const float* x, float* y, int rows, int cols) {
    for (int r = 0; r < rows; r++) {
        float top = -INFINITY, sum = 0;
        for (int c = 0; c < cols; c++) top = std::fmax(top, x[r * cols + c]);
        for (int c = 0; c < cols; c++) sum += y[r * cols + c] = std::exp(x[r * cols + c] - top);
        for (int c = 0; c < cols; c++) y[r * cols + c] /= sum;
    }
}
"""


def _signature(*shapes: tuple[int, ...], out: tuple[int, ...], weight: tuple[int, ...] | None = None) -> Signature:
    inputs = tuple(TensorSpec("", shape, "float32") for shape in shapes)
    params = (TensorSpec("weight", weight, "float32"),) if weight else ()
    init = {"0": weight[0], "1": 1e-6} if weight else {}
    return Signature("only", inputs, {}, init, params, (TensorSpec("", out, "float32"),), None, 0)


NORM = _signature((64, 96), out=(64, 96), weight=(96,))
ROWS = _signature((64, 96), out=(64, 96))


@pytest.mark.parametrize(
    ("task", "source", "suffix", "signature", "expected", "grid"),
    [
        ("rmsnorm", BY_THREAD, ".cu", NORM, "x out weight x.shape[0] x.shape[1] init1", (1, 1, 1)),
        ("rmsnorm", BY_ROW, ".py", NORM, "x out weight x.shape[1] x.shape[1] init1", (64, 1, 1)),
        (
            "matmul",
            PRODUCT,
            ".py",
            _signature((64, 32), (32, 128), out=(64, 128)),
            "a b out a.shape[0] b.shape[1] a.shape[1] a.shape[1] 1",
            (2, 1, 1),
        ),
        ("softmax", HOST, ".cu", ROWS, "x out numel(out)", (1, 1, 1)),
    ],
)
def test_a_plan_fits_kernel_and_task(
    task: str, source: str, suffix: str, signature: Signature, expected: str, grid: tuple[int, int, int]
) -> None:
    candidate = Candidate(source, candidates.language_of(source, suffix))
    told, _, plan = proposed(candidate, tasks.load(task), signature).partition("\n\n")
    found = plans.resolve(plans.parse(Candidate(plan + source, candidate.language)), signature, {}).launches
    assert [a.name for launch in found for a in launch.args] == expected.split()
    assert found[0].grid == grid
    assert ('extern "C"' in told) is (source == BY_THREAD)


SQUARE = """\
template <int T>
__global__ void sgemm(int M, int N, int K, float alpha, const float* A, const float* B, float beta, float* C) {
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0.f;
    for (int k = 0; k < K; k++) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = alpha * s + beta * C[row * N + col];
}
"""


def test_a_square_of_threads_fits_a_block_and_an_output_is_not_read() -> None:
    signature = _signature((64, 32), (32, 128), out=(64, 128))
    text = proposed(Candidate(SQUARE, "cuda"), tasks.load("matmul"), signature).partition("\n\n")[2]
    (launch,) = plans.resolve(plans.parse(Candidate(text, "cuda")), signature, {}).launches
    assert (launch.grid, launch.block) == ((8, 4, 1), (16, 16, 1))
    assert [a.value for a in launch.args if a.kind == "f32"] == [1.0, 0.0]


def test_a_template_is_tuned_over_the_instances_that_the_file_has() -> None:
    signature = _signature((64, 32), (32, 128), out=(64, 128))
    candidate = Candidate(TEMPLATE, "cuda")
    told, _, text = proposed(candidate, tasks.load("matmul"), signature).partition("\n\n")
    plan = plans.parse(Candidate(text + TEMPLATE, "cuda"))
    assert list(plan.combinations()) == [{"BM": 64, "BN": 32, "TM": 8}, {"BM": 32, "BN": 64, "TM": 4}]
    (launch,) = plans.resolve(plan, signature, {"BM": 32, "BN": 64, "TM": 4}).launches
    assert (launch.kernel, launch.grid, launch.block) == ("product<32,64,4,float>", (2, 2, 1), (512, 1, 1))
    assert 'extern "C"' not in told


def test_a_macro_with_a_default_is_a_tunable() -> None:
    source = BY_THREAD.replace("blockDim.x", "THREADS").replace(
        "#include", "#ifndef THREADS\n#define THREADS 128\n#endif\n#include"
    )
    text = proposed(Candidate(source, "cuda"), tasks.load("rmsnorm"), NORM).partition("\n\n")[2]
    plan = plans.parse(Candidate(text + source, "cuda"))
    assert plan.tunables == {"THREADS": (128, 64, 256)}
    assert plans.resolve(plan, NORM, {"THREADS": 64}).launches[0].block == (64, 1, 1)


def test_a_function_that_launches_becomes_a_module() -> None:
    text = proposed(Candidate(LAUNCHER, "triton"), tasks.load("softmax"), ROWS)
    module = LAUNCHER + text.partition("\n\n")[2]
    assert candidates.from_source(module, candidates.language_of(module)).language == "python"
    assert "return softmax(x)" in text


@pytest.mark.parametrize("source", ['extern "C" int f;', "void " * 5000, 'extern "C" void f(int a'])
def test_what_is_no_kernel_gets_no_plan(source: str) -> None:
    assert proposed(Candidate(source, "cpp"), tasks.load("softmax"), ROWS) == ""


TASK = """\
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
def get_inputs():
    return [torch.randn(32, 128)]
def get_init_inputs():
    return []
"""


def _place(folder: Path) -> Place:
    (folder / "task.py").write_text(TASK)
    return Place(device="cpu", archive=str(folder / "archive.db"))


@pytest.mark.slow
def test_a_kernel_without_a_plan_is_measured_with_the_one_proposed(tmp_path: Path) -> None:
    place = _place(tmp_path)
    request = MeasureRequest(task=str(tmp_path / "task.py"), kernel=Kernel(source=SOFTMAX), place=place)
    with pytest.raises(CandidateError, match="no launch plan") as caught:
        measure_kernel(request)
    assert not isinstance(caught.value, PlanMissingError)
    plan = caught.value.hint.partition("\n\n")[2]
    measured = measure_kernel(request.model_copy(update={"kernel": Kernel(source=f"{plan}\n{SOFTMAX}")}))
    assert measured.status == "ok"


def test_every_way_to_name_several_kernels_proposes_a_plan(tmp_path: Path) -> None:
    place, task, folder = _place(tmp_path), str(tmp_path / "task.py"), tmp_path / "kernels"
    folder.mkdir()
    (folder / "task.cpp").write_text(SOFTMAX)
    kernels = [Kernel(path=str(folder / "task.cpp")), Kernel(source=SOFTMAX)]
    with closing_executors(None) as kept:
        many = MeasureManyRequest(task=task, kernels=kernels, place=place)
        measured = measure_kernels(many, executors=kept).kernels
        with pytest.raises(CandidateError, match="none of the kernels") as caught:
            forecast_kernel(ForecastRequest(task=task, kernels=kernels, place=place), executors=kept)
        locking = GateLockRequest(task=task, kernels=kernels[:1], place=place, out=str(tmp_path / "a.lock"))
        locked = lock_kernels(locking, executors=kept)
        request = SuiteRequest(problems=task, kernels=str(folder), output=str(tmp_path / "suite"), place=place)
        suite = run_suite(request, executors=kept)
    problems = [*(k.problem for k in measured), caught.value.hint, *locked.problems, *(row.log for row in suite.rows)]
    assert [problem.count('kernel = "softmax"') for problem in problems] == [1, 1, 2, 1, 1], problems
