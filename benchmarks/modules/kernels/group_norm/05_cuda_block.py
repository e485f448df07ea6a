import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__device__ float block_total(float v) {
    __shared__ float parts[16];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0.0f;
    for (int i = 0; i < 16; i++) v += parts[i];
    return v;
}

__global__ void __launch_bounds__(512) group_norm_block(const float* __restrict__ x, const float* __restrict__ w,
        const float* __restrict__ b, float* __restrict__ y, int groups, int per_group, int plane, float eps) {
    const int n = per_group * plane;
    const size_t base = (size_t)blockIdx.x * n;
    float s = 0.0f, q = 0.0f;
    for (int i = threadIdx.x; i < n; i += 512) s += x[base + i];
    const float mean = block_total(s) / n;
    for (int i = threadIdx.x; i < n; i += 512) q += (x[base + i] - mean) * (x[base + i] - mean);
    const float rstd = rsqrtf(block_total(q) / n + eps);
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
