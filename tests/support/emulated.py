"""Small tasks, and CUDA kernels for them that are right or wrong in one way each."""

from __future__ import annotations

from dataclasses import replace

from forewarp.core.values import Candidate, Task, Workload


def task(forward: str, inputs: str, *, perturb: bool = False) -> Task:
    """Return a task whose Model computes `forward` of x and `rest` from `inputs`."""
    reference = (
        "import torch\nimport torch.nn as nn\n"
        f"class Model(nn.Module):\n    def forward(self, x, *rest): return {forward}\n"
        f"def get_inputs(): return [{inputs}]\ndef get_init_inputs(): return []\n"
    )
    return Task("sample", "Sample", reference, {"cuda": (Workload("only"),)}, perturb=perturb)


DOUBLE = task("x * 2", "torch.randn(1000)")
ROW_SUM = task("x.sum(1)", "torch.randn(5, 200)")
FLIP = task("x.flip(1)", "torch.randn(6, 128)")
TOTAL = task("x.sum().reshape(1)", "torch.randn(1000)")
PRODUCT = task("(x.float() @ rest[0].float())", "torch.randn(32, 64).half(), torch.randn(64, 16).half()")


def kernel(
    body: str, *, block: int = 128, grid: str = "cdiv(numel(x), 128)", shared: int = 0, before: str = ""
) -> Candidate:
    """Return a candidate with one kernel `k` of x, y and the number n of elements of x."""
    return launched('"x", "y", "numel(x)"', "const float* x, float* y, int n", body, block, grid, shared, before)


def launched(
    arguments: str,
    parameters: str,
    body: str,
    block: int = 128,
    grid: str = "cdiv(numel(x), 128)",
    shared: int = 0,
    before: str = "",
    inputs: str = '"x"',
) -> Candidate:
    """Return a candidate with one kernel `k`; `before` stands before it."""
    return Candidate(
        f'/*forewarp\ninputs = [{inputs}]\noutputs = ["y"]\n[[launch]]\nkernel = "k"\nargs = [{arguments}]\n'
        f'grid = ["{grid}"]\nblock = [{block}]\nshared = {shared}\n*/\n{before}\n'
        f'extern "C" __global__ void k({parameters}) {{\n{body}\n}}\n',
        "cuda",
    )


def rows(body: str, *, block: int = 128, grid: str = "x.shape[0]", shared: int = 0, before: str = "") -> Candidate:
    """Return a candidate with one kernel `k` of x (a matrix), y and the number of columns, a block for each row."""
    arguments, parameters = '"x", "y", "x.shape[1]"', "const float* x, float* y, int cols"
    return launched(arguments, parameters, body, block, grid, shared, before)


RIGHT_DOUBLE = """
const int i = blockIdx.x * blockDim.x + threadIdx.x;
if (i < n) y[i] = x[i] * 2.0f;
"""
RIGHT_SUM = """
__shared__ float parts[4];
float sum = 0.0f;
for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += x[blockIdx.x * cols + c];
for (int by = 16; by > 0; by /= 2) sum += __shfl_down_sync(0xffffffffu, sum, by);
if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sum;
__syncthreads();
if (threadIdx.x == 0) y[blockIdx.x] = parts[0] + parts[1] + parts[2] + parts[3];
"""
RIGHT_FLIP = """
extern __shared__ float row[];
row[threadIdx.x] = x[blockIdx.x * 128 + threadIdx.x];
__syncthreads();
y[blockIdx.x * 128 + threadIdx.x] = row[127 - threadIdx.x];
"""
LAST_BLOCK = """
__shared__ bool last;
if (threadIdx.x == 0) {
    float sum = 0.0f;
    for (int i = blockIdx.x * 128; i < n && i < (blockIdx.x + 1) * 128; i++) sum += x[i];
    part[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(ticket, 1) == gridDim.x - 1;
}
__syncthreads();
if (last && threadIdx.x == 0) {
    float sum = 0.0f;
    for (int b = 0; b < gridDim.x; b++) sum += part[b];
    y[0] = sum;
}
"""


def total(body: str) -> Candidate:
    """Return a candidate for `TOTAL`: eight blocks, with a float of scratch for each and a counter that is zero."""
    candidate = launched(
        '"x", "y", "part", "ticket", "numel(x)"', "const float* x, float* y, float* part, int* ticket, int n", body
    )
    scratch = '[scratch]\npart = { dtype = "float32", shape = [8] }\nticket = { dtype = "int32", shape = [1] }\n'
    return replace(candidate, source=candidate.source.replace("[[launch]]", f"{scratch}[[launch]]"))
