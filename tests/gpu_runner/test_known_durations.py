"""Kernels that take a known time, in every form that a candidate may have: no sample may be shorter than it.

A spin by the wall clock takes as long on a busy machine as on a quiet one, and seldom much longer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.shared_executors import limited

from forewarp.core.values import DeviceKind, Measurement, Task, Workload
from forewarp.gpu_runner.devices import detect_cuda
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates

LIMITS = Limits(compile_s=100, measure_s=60, call_s=5.0, memory=2 << 30, time_s=0.05, looks=(4,))
SPIN_S = 4e-3

REFERENCE = """
import time, torch

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

def get_inputs():
    return [torch.randn(4096)]

def get_init_inputs():
    return []
"""
BOT = """
import time
import torch

def generate_input(seed):
    return torch.randn(4096)

def ref_kernel(data):
    return data * 2

def check_implementation(data, output):
    return torch.equal(output, ref_kernel(data))
"""
WORKLOADS: dict[DeviceKind, tuple[Workload, ...]] = {"cpu": (Workload("only"),), "cuda": (Workload("only"),)}
PLAIN = Task("doubled", "twice the input", REFERENCE, WORKLOADS)
GRADIENT = Task("doubled_back", "its gradient", REFERENCE, WORKLOADS, gradients="only")
SUBMITTED = Task("doubled_bot", "as a submission", BOT, WORKLOADS, format="gpumode")

HEAD = 'inputs = ["x"]\noutputs = ["y"]\n'
FUNCTION = f'/*forewarp\n{HEAD}function = "f"\nargs = ["x", "y", "numel(x)"]\n*/\n'
LAUNCH = '[[launch]]\nkernel = "f"\nargs = ["x", "y", "numel(x)"]\n'
CODE = f"""#include <chrono>
#include <thread>
static void spin() {{
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::duration<double>({SPIN_S})) {{}}
}}
extern "C" void f(const float* x, float* y, int n) {{
    spin();
    for (int i = 0; i < n; i++) y[i] = x[i] * 2;
}}
"""
INLINE = f'''import torch
from torch.utils.cpp_extension import load_inline
CPP = """{CODE}
torch::Tensor g(torch::Tensor x) {{
    auto y = torch::empty_like(x);
    f(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}}
"""
built = load_inline(name="doubled_slowly", cpp_sources=CPP, functions=["g"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return built.g(x)
'''
SPIN = f"""import threading, time, torch
def spin(*_):
    start = time.perf_counter()
    while time.perf_counter() - start < {SPIN_S}: pass
"""
MODULE = f"""{SPIN}
class ModelNew(torch.nn.Module):
    def forward(self, x):
        spin()
        return x * 2
"""
IN_A_THREAD = "helper = threading.Thread(target=spin)\n        helper.start()\n        helper.join()"
BACK = f"""{SPIN}
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        spin(grad)
        return grad * 2
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return Double.apply(x)
"""
BOT_KERNEL = f"{SPIN}\ndef custom_kernel(x):\n    spin(x)\n    return x * 2\n"


def measure(executor: LocalExecutor, task: Task, source: str, suffix: str = ".py") -> Measurement:
    candidate = candidates.from_source(source, candidates.language_of(source, suffix))
    return executor.measure(task, candidate, executor.compile(task, candidate))


def check(result: Measurement, *, anchor: bool = False, longest: float = 10.0) -> None:
    """Hold one arm's times against the spin: none is shorter, and one below `longest` times that (a busy CPU: 10)."""
    assert result.status == "ok", result.log
    for timing in result.workloads:
        samples = timing.anchor_s if anchor else timing.candidate_s
        assert min(samples) > 0.97 * SPIN_S, (samples, result.lifting)
        assert min(samples) < longest * SPIN_S, (samples, result.lifting)


@pytest.fixture(scope="module")
def executor(cpu_executor: LocalExecutor) -> Iterator[LocalExecutor]:
    with limited(cpu_executor, LIMITS, compiling=True) as made:
        yield made


@pytest.mark.parametrize(
    ("task", "source", "suffix"),
    [
        pytest.param(PLAIN, f"/*forewarp\n{HEAD}{LAUNCH}*/\n{CODE}", ".cpp", id="launch plan"),
        pytest.param(PLAIN, FUNCTION + CODE, ".cpp", id="host function"),
        pytest.param(
            *(PLAIN, FUNCTION + CODE.replace("  spin();", "  std::thread(spin).join();"), ".cpp"), id="native thread"
        ),
        pytest.param(PLAIN, MODULE, ".py", id="module"),
        pytest.param(PLAIN, MODULE.replace("        spin()", f"        time.sleep({SPIN_S})"), ".py", id="sleeps"),
        pytest.param(PLAIN, MODULE.replace("        spin()", f"        {IN_A_THREAD}"), ".py", id="thread"),
        pytest.param(PLAIN, INLINE, ".py", id="load_inline", marks=pytest.mark.slow),
        pytest.param(GRADIENT, BACK, ".py", id="gradients"),
        pytest.param(SUBMITTED, BOT_KERNEL, ".py", id="submission"),
        pytest.param(SUBMITTED, FUNCTION + CODE, ".cpp", id="submitted host function"),
    ],
)
def test_no_sample_is_shorter_than_the_kernel(executor: LocalExecutor, task: Task, source: str, suffix: str) -> None:
    check(measure(executor, task, source, suffix))


@pytest.mark.parametrize("task", [PLAIN, SUBMITTED], ids=["module", "submission"])
def test_no_sample_is_shorter_than_the_reference(executor: LocalExecutor, task: Task) -> None:
    slow = SPIN + task.reference.replace("return x * 2", "spin()\n        return x * 2")
    slow = slow.replace("return data * 2", "spin()\n    return data * 2")
    kernel = MODULE if task is PLAIN else BOT_KERNEL
    result = measure(executor, replace(task, name=f"slow_{task.name}", reference=slow), kernel)
    check(result, anchor=True)
    check(result)


CLOCK = """
__device__ unsigned long long now() {
    unsigned long long t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}
"""
GRID = f"""{CLOCK}
extern "C" __global__ void f(const float* x, float* y, int n) {{
    for (auto start = now(); now() - start < {int(1e9 * SPIN_S)};) {{}}
    for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i] * 2;
}}
"""
CUDA_LAUNCH = LAUNCH + 'grid = ["1"]\nblock = [1024]\n'
HOST = (
    GRID.replace("f(const", "k(const").replace('extern "C"', "#include <cuda_runtime.h>\n")
    + """
extern "C" void f(const float* x, float* y, int n) {
    cudaStream_t stream = 0;
    k<<<1, 1024, 0, stream>>>(x, y, n);
}
"""
)
TRITON = f"""import torch, triton
import triton.language as tl
from triton.language.extra.cuda import globaltimer

@triton.jit
def f(x, y, n, BLOCK: tl.constexpr):
    start = globaltimer()
    now = start
    while now - start < {int(1e9 * SPIN_S)}:
        now = globaltimer()
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
"""
TRITON_PLAN = f'"""forewarp\n{HEAD}[constants]\nBLOCK = 4096\n{LAUNCH}grid = ["1"]\n"""\n'
SPIN_ON_GPU = f"""{TRITON}
def spin(x):
    y = torch.empty_like(x)
    f[(1,)](x, y, x.numel(), BLOCK=4096)
    return y
"""
TRITON_MODULE = f"{SPIN_ON_GPU}\nclass ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return spin(x)\n"
ON_ANOTHER_STREAM = """stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            y = spin(x)
        torch.cuda.current_stream().wait_stream(stream)
        return y"""
CUDA_INLINE = f'''import torch
from torch.utils.cpp_extension import load_inline
CUDA = """#include <c10/cuda/CUDAStream.h>
{GRID.replace('extern "C" ', "")}
torch::Tensor g(torch::Tensor x) {{
    auto y = torch::empty_like(x);
    f<<<1, 1024, 0, c10::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y;
}}
"""
built = load_inline(name="slow", cpp_sources="torch::Tensor g(torch::Tensor x);", cuda_sources=CUDA, functions=["g"])
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return built.g(x)
'''
ON_A_GPU = [
    pytest.param(PLAIN, f"/*forewarp\n{HEAD}{CUDA_LAUNCH}*/\n{GRID}", ".cu", id="launch plan"),
    pytest.param(PLAIN, TRITON_PLAN + TRITON, ".py", id="triton plan"),
    pytest.param(PLAIN, FUNCTION + HOST, ".cu", id="host function"),
    pytest.param(
        PLAIN,
        FUNCTION + HOST.replace("= 0;", "= 0;\n    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);"),
        ".cu",
        id="its own stream",
    ),
    pytest.param(PLAIN, TRITON_MODULE, ".py", id="module"),
    pytest.param(PLAIN, TRITON_MODULE.replace("return spin(x)", ON_ANOTHER_STREAM), ".py", id="another stream"),
    pytest.param(PLAIN, MODULE.replace("spin()\n", "spin(x.sum().item())\n"), ".py", id="on the host"),
    pytest.param(GRADIENT, SPIN_ON_GPU + BACK.partition("pass\n")[2], ".py", id="gradients"),
    pytest.param(SUBMITTED, f"{SPIN_ON_GPU}\ndef custom_kernel(x):\n    return spin(x)\n", ".py", id="submission"),
    pytest.param(SUBMITTED, f"/*forewarp\n{HEAD}{CUDA_LAUNCH}*/\n{GRID}", ".cu", id="submitted launch plan"),
    pytest.param(PLAIN, CUDA_INLINE, ".py", id="load_inline"),
]


@pytest.fixture(scope="module")
def gpu_executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    target = detect_cuda()
    assert target is not None
    made = LocalExecutor(target, limits=LIMITS, cache=tmp_path_factory.mktemp("builds"))
    yield made
    made.close()


@pytest.mark.gpu
def test_no_sample_on_a_gpu_is_shorter_than_the_reference(gpu_executor: LocalExecutor) -> None:
    cycles = int(SPIN_S * 2.1e9)  # no card is faster; many are slower
    slow = PLAIN.reference.replace("return x", f"torch.cuda._sleep({cycles})\n        return x")
    result = measure(gpu_executor, replace(PLAIN, name="slow_doubled", reference=slow), TRITON_MODULE)
    check(result, anchor=True, longest=4.0)
    check(result, longest=2.0)


@pytest.mark.gpu
@pytest.mark.parametrize(("task", "source", "suffix"), ON_A_GPU)
def test_no_sample_on_a_gpu_is_shorter_than_the_kernel(
    gpu_executor: LocalExecutor, task: Task, source: str, suffix: str
) -> None:
    check(measure(gpu_executor, task, source, suffix), longest=2.0)


@pytest.mark.slow
@pytest.mark.parametrize(("task", "source", "suffix"), ON_A_GPU)
def test_what_spins_on_a_gpu_compiles_for_one(
    h200_executor: LocalExecutor, task: Task, source: str, suffix: str
) -> None:
    candidate = candidates.from_source(source, candidates.language_of(source, suffix))
    build = h200_executor.compile(task, candidate)
    assert build.status == "ok", build.log
