"""Small tasks and candidates for tests that really compile and really measure."""

from __future__ import annotations

from forewarp.core.values import Candidate, Task, Workload

REFERENCE = """
import torch
import torch.nn as nn

ROWS, COLS = 64, 256


class Model(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(COLS))
        self.bias = bias

    def forward(self, x):
        return torch.softmax(x * self.weight + self.bias, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [0.5]
"""

PLAN = """/*forewarp
inputs = ["x"]
outputs = ["y"]
params = {w = "weight"}
[tunables]
UNROLL = [1, 2, 4]
[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
[[launch]]
kernel = "softmax"
args = ["x", "w", "y", "rows", "cols", "init0 : f32"]
*/
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
"""

SIGNATURE = 'extern "C" void softmax(const float* x, const float* w, float* y, int rows, int cols, float bias)'

BODY = """
  #pragma omp parallel for schedule(static, UNROLL)
  for (int r = 0; r < rows; ++r) {
    float most = -INFINITY, sum = 0;
    for (int c = 0; c < cols; ++c) most = fmaxf(most, x[r * cols + c] * w[c] + bias);
    for (int c = 0; c < cols; ++c) sum += y[r * cols + c] = expf(x[r * cols + c] * w[c] + bias - most);
    for (int c = 0; c < cols; ++c) y[r * cols + c] /= sum;
  }
"""


def small_task(reference: str = REFERENCE) -> Task:
    workloads = (Workload("even"), Workload("odd", {"ROWS": 33, "COLS": 101}))
    return Task("small_softmax", "softmax of a scaled row", reference, {"cpu": workloads, "cuda": workloads})


def cpp(body: str = BODY, before: str = "", after: str = "", **tunables: int) -> Candidate:
    """A C++ candidate whose function does `before`, the right computation, then `after`."""
    return Candidate(f"{PLAN}{SIGNATURE} {{{before}{body}{after}}}\n", "cpp", tunables or {"UNROLL": 1})


def module(forward: str, init: str = "", top: str = "") -> Candidate:
    """A KernelBench module with the given body of `forward`."""
    return Candidate(
        f"""import os, sys, torch
import torch.nn as nn
{top}

class ModelNew(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(0))
        {init or "pass"}
        self.bias = bias

    def forward(self, x):
{forward}
""",
        "python",
    )


CUDA = """/*forewarp
inputs = ["x"]
outputs = ["y"]
params = {w = "weight"}
[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
[[launch]]
kernel = "softmax"
grid = ["rows"]
block = [32]
args = ["x", "w", "y", "cols", "init0 : f32"]
*/
extern "C" __global__ void softmax(const float* x, const float* w, float* y, int cols, float bias) {
  x += (long long)blockIdx.x * cols;
  y += (long long)blockIdx.x * cols;
  float most = -1e30f, sum = 0;
  for (int c = threadIdx.x; c < cols; c += 32) most = fmaxf(most, x[c] * w[c] + bias);
  for (int s = 16; s; s /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, s));
  for (int c = threadIdx.x; c < cols; c += 32) sum += expf(x[c] * w[c] + bias - most);
  for (int s = 16; s; s /= 2) sum += __shfl_xor_sync(~0u, sum, s);
  for (int c = threadIdx.x; c < cols; c += 32) y[c] = expf(x[c] * w[c] + bias - most) / sum;
  /*AFTER*/
}
"""


def cuda(after: str = "") -> Candidate:
    """The same for a GPU, device-only, with code that runs after it."""
    return Candidate(CUDA.replace("/*AFTER*/", after), "cuda")


WITHIN = """
import torch

def generate_input(rows, cols, seed):
    return torch.distributions.Cauchy(0, 2).sample((rows, cols)), torch.randn(cols, cols)

def ref_kernel(data):
    x, weight = data
    layer = torch.nn.Linear(x.shape[1], x.shape[1], bias=False).to(x.device)
    layer.weight = torch.nn.Parameter(weight)
    return layer(x)

def check_implementation(data, output):
    return torch.allclose(output, ref_kernel(data), rtol=1e-3, atol=1e-3)
"""
"""A KernelBot reference that samples inputs on the host, and builds a module whose weights it then replaces."""
