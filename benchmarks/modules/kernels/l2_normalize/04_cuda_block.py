import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

__global__ void l2norm_kernel(const float* x, float* y, int n) {
    __shared__ float s[128];
    const int row = blockIdx.x;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += 128) {
        float v = x[(long long)row * n + i];
        sum += v * v;
    }
    s[threadIdx.x] = sum;
    __syncthreads();
    for (int k = 64; k > 0; k >>= 1) {
        if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    float norm = fmaxf(sqrtf(s[0]), 1e-12f);
    for (int i = threadIdx.x; i < n; i += 128) y[(long long)row * n + i] = x[(long long)row * n + i] / norm;
}

torch::Tensor l2norm(torch::Tensor x) {
    auto y = torch::empty_like(x);
    l2norm_kernel<<<x.size(0), 128>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""

ext = load_inline(name="l2norm_block", cpp_sources="torch::Tensor l2norm(torch::Tensor x);", cuda_sources=SOURCE, functions=["l2norm"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.l2norm(x)
