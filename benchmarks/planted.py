"""A task and kernels whose true speed ratio is planted: the same work, and a known share of it once more.

`arithmetic` repeats a multiply-add WORK times per element, `memory` streams the tensor and goes over EXTRA per mille of
its tiles a second time. Both give the right result however often they repeat themselves.
"""

from __future__ import annotations

from pathlib import Path

from forewarp.core.values import Candidate, Task, Workload
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks

THREE_PERCENT = {work: work * 103 // 100 for work in range(200, 1400, 100)}
"""Repeats per element, and 3 % more."""
WORK = tuple(sorted({0, 50, 100, 201, 202, 203, 204, 210, *THREE_PERCENT, *THREE_PERCENT.values()}))
EXTRA = (0, 5, 10, 15, 20, 50)

_REFERENCE = """
import torch
import torch.nn as nn

TILES = 4096


class Model(nn.Module):
    def __init__(self, one, zero):
        super().__init__()
        self.one, self.zero = one, zero

    def forward(self, x):
        return x * 2.0


def get_inputs():
    return [torch.randn(TILES * 1024)]


def get_init_inputs():
    return [1.0, 0.0]
"""

_PLAN = """/*forewarp
inputs = ["x"]
outputs = ["y"]
[tunables]
WORK = [{work}]
EXTRA = [{extra}]
[let]
tiles = "x.shape[0] // 1024"
[[launch]]
kernel = "planted"
{launch}
args = ["x", "y", "tiles", {grid}"init0 : f32", "init1 : f32"]
*/
"""

_CUDA = r"""
extern "C" __global__ void planted(const float4* x, float4* y, int tiles, float one, float zero) {
  const long long at = (long long)(blockIdx.x % tiles) * 256 + threadIdx.x;
  float4 v = x[at];
  v.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2;
#pragma unroll 1
  for (int i = 0; i < WORK; ++i) {
    v.x = fmaf(v.x, one, zero); v.y = fmaf(v.y, one, zero);
    v.z = fmaf(v.z, one, zero); v.w = fmaf(v.w, one, zero);
  }
  y[at] = v;
}
"""

_CPP = r"""
#include <cmath>
extern "C" void planted(const float* x, float* y, int tiles, int calls, float one, float zero) {
#pragma omp parallel for schedule(static)
  for (int c = 0; c < calls; ++c) {
    const float* from = x + (long)(c % tiles) * 1024;
    float* to = y + (long)(c % tiles) * 1024;
    for (int j = 0; j < 1024; ++j) {
      float v = from[j] * 2;
      for (int i = 0; i < WORK; ++i) v = std::fma(v, one, zero);
      to[j] = v;
    }
  }
}
"""


def task(folder: Path, tiles: int) -> Task:
    """Return the task with one shape of `tiles` × 1024 elements; its file is kept in `folder`."""
    path = folder / f"planted_{tiles}.py"
    path.write_text(_REFERENCE)
    loaded = tasks.load(str(path))
    shape = (Workload("only", {"TILES": tiles}),)
    return Task(loaded.name, loaded.title, loaded.reference, {"cpu": shape, "cuda": shape})


def kernel(kind: str, *, work: int = 0, extra: int = 0) -> Candidate:
    """Return the kernel for a device kind with `work` repeats per element and `extra` per mille of repeated tiles."""
    grid = '"tiles * (1000 + EXTRA) // 1000"'
    cuda = kind == "cuda"
    plan = _PLAN.format(
        work=", ".join(map(str, WORK)),
        extra=", ".join(map(str, EXTRA)),
        launch=f"grid = [{grid}]\nblock = [256]" if cuda else "",
        grid="" if cuda else f"{grid}, ",
    )
    source = plan + (_CUDA if cuda else _CPP)
    return candidates.from_source(source, "cuda" if cuda else "cpp", {"WORK": work, "EXTRA": extra})
