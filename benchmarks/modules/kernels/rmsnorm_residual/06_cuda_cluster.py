"""Two blocks of a cluster share a row; each reads the other's sum of squares from its shared memory."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256)
cluster_rms(const float* __restrict__ x, const float* __restrict__ r, const float* __restrict__ w,
            float* __restrict__ y, float* __restrict__ h, int cols) {
    __shared__ float total;
    cg::cluster_group cluster = cg::this_cluster();
    const int half = (cols + 1) / 2;
    const int rank = cluster.block_rank();
    const int begin = rank * half;
    const int end = min(cols, begin + half);
    const size_t base = (size_t)(blockIdx.x / 2) * cols;
    if (threadIdx.x == 0) total = 0.0f;
    __syncthreads();
    float sum = 0.0f;
    for (int i = begin + threadIdx.x; i < end; i += 256) {
        const float v = x[base + i] + r[base + i];
        h[base + i] = v;
        sum += v * v;
    }
    for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (threadIdx.x % 32 == 0) atomicAdd(&total, sum);
    cluster.sync();
    const float both = total + *cluster.map_shared_rank(&total, rank ^ 1);
    cluster.sync();
    const float scale = rsqrtf(both / cols + 1e-6f);
    for (int i = begin + threadIdx.x; i < end; i += 256) y[base + i] = h[base + i] * scale * w[i];
}

void cluster_launch(torch::Tensor x, torch::Tensor r, torch::Tensor w, torch::Tensor y, torch::Tensor h) {
    cluster_rms<<<2 * x.size(0), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), r.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), h.data_ptr<float>(), x.size(1));
}
"""

built = load_inline(
    name="add_rmsnorm_cluster",
    cpp_sources="void cluster_launch(torch::Tensor x, torch::Tensor r, torch::Tensor w, torch::Tensor y, torch::Tensor h);",
    cuda_sources=CUDA,
    functions=["cluster_launch"],
)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x, residual):
        y, h = torch.empty_like(x), torch.empty_like(x)
        built.cluster_launch(x, residual, self.weight, y, h)
        return y, h
