import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void __launch_bounds__(512) group_norm_block(const float* __restrict__ x, const float* __restrict__ w,
        const float* __restrict__ b, float* __restrict__ y, int groups, int per_group, int plane, float eps) {
    __shared__ float sums[16], squares[16];
    const int n = per_group * plane;
    const size_t base = (size_t)blockIdx.x * n;
    float s = 0.0f, q = 0.0f;
    for (int i = threadIdx.x; i < n; i += 512) {
        const float v = x[base + i];
        s += v;
        q += v * v;
    }
    for (int o = 16; o > 0; o >>= 1) {
        s += __shfl_xor_sync(0xffffffffu, s, o);
        q += __shfl_xor_sync(0xffffffffu, q, o);
    }
    if (threadIdx.x % 32 == 0) {
        sums[threadIdx.x / 32] = s;
        squares[threadIdx.x / 32] = q;
    }
    __syncthreads();
    s = q = 0.0f;
    for (int i = 0; i < 16; i++) {
        s += sums[i];
        q += squares[i];
    }
    const float mean = s / n;
    const float rstd = rsqrtf(q / n - mean * mean + eps);
    const int first = blockIdx.x % groups * per_group;
    for (int i = threadIdx.x; i < n; i += 512) {
        const int c = first + i / plane;
        y[base + i] = (x[base + i] - mean) * rstd * w[c] + b[c];
    }
}

torch::Tensor group_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b, int64_t groups) {
    auto y = torch::empty_like(x);
    const int per_group = x.size(1) / groups;
    group_norm_block<<<x.size(0) * groups, 512, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), groups, per_group,
        x.size(2) * x.size(3), 1e-5f);
    return y;
}
"""

ext = load_inline(
    name="group_norm_block",
    cpp_sources="torch::Tensor group_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b, int64_t groups);",
    cuda_sources=SOURCE,
    functions=["group_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        return ext.group_norm(x, self.weight, self.bias, self.groups)
