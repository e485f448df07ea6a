"""A reference and modules of many kinds, as a candidate would be written; small enough to be traced in a second."""

from __future__ import annotations

REFERENCE = """
import torch, torch.nn as nn
N = 256
DTYPE = "float32"
class Model(nn.Module):
    def forward(self, a, b):
        return a * 2
def get_inputs():
    return [torch.randn(N, N).to(getattr(torch, DTYPE)), torch.randn(N, N).to(getattr(torch, DTYPE))]
def get_init_inputs():
    return []
"""

_HEAD = """
import torch, torch.nn as nn, torch.nn.functional as F
import triton, triton.language as tl
"""

_SCALE = """
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i, mask=i < n) * 2, mask=i < n)
"""

ROWS = f"""{_HEAD}
@triton.jit
def rows(x, y, columns, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    at = tl.program_id(0) * columns + i
    v = tl.load(x + at, mask=i < columns, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(y + at, v / tl.sum(v, 0), mask=i < columns)
{_SCALE}
class ModelNew(nn.Module):
    def forward(self, a, b):
        y, z = torch.empty_like(a), torch.empty_like(a)
        rows[(a.shape[0],)](a, y, a.shape[1], BLOCK=256, num_warps=8)
        for _ in range(3):
            scale[(triton.cdiv(a.numel(), 1024),)](y, z, a.numel(), BLOCK=1024)
        s = F.relu(z)
        scale[(1,)](a.view(-1)[1:], s, 7, BLOCK=1024)
        return z
"""

ASKS_FOR_CUDA = f"""{_HEAD}{_SCALE}
class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Linear(256, 256).cuda()
        self.to(torch.device("cuda", 0))
        self.graph = None

    def forward(self, a, b):
        assert a.is_cuda and a.device == torch.device("cuda:0") and not a.is_cpu
        assert torch.cuda.get_device_properties(a.device).multi_processor_count == 132
        assert torch.cuda.get_device_capability() == (9, 0)
        a = a.cuda().to("cuda:0", non_blocking=True)
        with torch.cuda.device(a.device.index), torch.device("cuda"):
            y = torch.zeros(256, 256)
        if self.graph is None:
            self.x, self.y = a.clone(), torch.empty(a.shape, device=a.device)
            scale[(1,)](self.x, self.y, a.numel(), BLOCK=512)
            torch.cuda.current_stream().synchronize()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                scale[(64,)](self.x, self.y, a.numel(), BLOCK=1024)
        self.x.copy_(a)
        self.graph.replay()
        start = torch.cuda.Event(enable_timing=True)
        start.record(torch.cuda.current_stream())
        return self.weight(self.y) + torch.rand(256, 256, device="cuda", generator=torch.Generator(device="cuda"))
"""

GRID_FROM_DATA = f"""{_HEAD}{_SCALE}
class ModelNew(nn.Module):
    def forward(self, a, b):
        n = int((b > -100).sum().item())
        y = torch.empty_like(a)
        scale[(triton.cdiv(n, 1024),)](a, y, n, BLOCK=1024)
        return y
"""

LIBRARY = """
import torch, torch.nn as nn, torch.nn.functional as F
class ModelNew(nn.Module):
    def forward(self, a, b):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            c = a @ b
        d = F.softmax(c.float().t().reshape(256, 256), -1)
        return torch.compile(lambda x: F.gelu(x))(d)
"""

TUNED = f"""{_HEAD}
@triton.autotune(
    configs=[triton.Config({{"M": m, "K": k}}, num_warps=4, num_stages=s)
             for m, k, s in [(128, 128, 4), (64, 32, 2), (32, 32, 2)] + [(16, 16, 1)] * 20],
    key=["n"],
)
@triton.jit
def product(a, b, c, n, M: tl.constexpr, K: tl.constexpr):
    i, j = tl.program_id(0) * M + tl.arange(0, M), tl.program_id(1) * M + tl.arange(0, M)
    total = tl.zeros((M, M), tl.float32)
    for start in range(0, n, K):
        k = start + tl.arange(0, K)
        total += tl.dot(tl.load(a + i[:, None] * n + k[None, :]), tl.load(b + k[:, None] * n + j[None, :]))
    tl.store(c + i[:, None] * n + j[None, :], total)

class ModelNew(nn.Module):
    def forward(self, a, b):
        c = torch.empty_like(a)
        product[lambda meta: (256 // meta["M"], 256 // meta["M"])](a, b, c, a.shape[0])
        return c
"""

REFUSED = f"""{_HEAD}
@triton.jit
def wrong(x):
    tl.store(x, no_such_name)

class ModelNew(nn.Module):
    def forward(self, a, b):
        wrong[(1,)](a)
        return a
"""

ONE_REFUSED = f"""{_HEAD}{_SCALE}
@triton.jit
def wrong(x):
    tl.store(x, no_such_name)

class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty_like(a)
        wrong[(1,)](a)
        scale[(64,)](a, y, a.numel(), BLOCK=1024)
        return y
"""

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <math_constants.h>
#define THREADS 128 /* a block
                       has so many */
/**
 * Scales.
 */
template <typename scalar_t, int N>
__global__ void scale(const scalar_t* __restrict__ x, scalar_t* __restrict__ y, int n) {
  extern __shared__ float staged[];
  int i = (blockIdx.x * blockDim.x + threadIdx.x) * N;
#pragma unroll
  for (int k = 0; k < N; k++) if (i + k < n) y[i + k] = x[i + k] * static_cast<scalar_t>(2);
}
static __global__ void shift(float* y, long n) { y[blockIdx.x * blockDim.x + threadIdx.x] += CUDART_INF_F; }
inline int blocks_for(int64_t n, int each) { return (n + each - 1) / each; }
torch::Tensor run(torch::Tensor x, bool shifted) {
  TORCH_CHECK(x.is_cuda(), "not on the device");
  const auto n = x.numel();
  auto y = torch::empty({x.size(0), x.size(1)}, x.options());
  constexpr int kEach = 4;
  dim3 grid(blocks_for(n, THREADS * kEach), 1);
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "scale", ([&] {
    scale<scalar_t, kEach><<<grid, THREADS, THREADS * sizeof(float), at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(), (int)n);
  }));
  if (shifted) {
    shift<<<x.size(0), dim3(32, 8)>>>(y.data_ptr<float>(), n);
  }
  return y;
}
"""

EXTENSION = f'''
import torch, torch.nn as nn
from torch.utils.cpp_extension import load_inline
extension = load_inline(name="scaling", cpp_sources="torch::Tensor run(torch::Tensor x, bool shifted);",
                        cuda_sources=r"""{CUDA}""", functions=["run"], extra_cuda_cflags=["-O3", "--use_fast_math"])
class ModelNew(nn.Module):
    def forward(self, a, b):
        return extension.run(a.contiguous(), True) @ b
'''

ENDLESS = """
import torch.nn as nn
class ModelNew(nn.Module):
    def forward(self, a, b):
        while True:
            try:
                while True:
                    pass
            except Exception:
                pass
"""
