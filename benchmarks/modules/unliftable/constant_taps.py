"""The taps go to constant memory, once, by cudaMemcpyToSymbol."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

__constant__ float taps[7];

__global__ void filter(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float* row = x + blockIdx.y * (long long)n;
    float sum = 0;
    for (int k = -3; k <= 3; k++)
        if (i + k >= 0 && i + k < n) sum += taps[k + 3] * row[i + k];
    y[blockIdx.y * (long long)n + i] = sum;
}

torch::Tensor filtered(torch::Tensor x) {
    static bool known = false;
    if (!known) {
        const float values[7] = {1.f / 64, 6.f / 64, 15.f / 64, 20.f / 64, 15.f / 64, 6.f / 64, 1.f / 64};
        TORCH_CHECK(cudaMemcpyToSymbol(taps, values, sizeof(values)) == cudaSuccess);
        known = true;
    }
    auto y = torch::empty_like(x);
    int n = x.size(1);
    filter<<<dim3((n + 255) / 256, x.size(0)), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""
cpp_src = "torch::Tensor filtered(torch::Tensor x);"

mod = load_inline("constant_taps", cpp_sources=[cpp_src], cuda_sources=[cuda_src], functions=["filtered"])


class ModelNew(nn.Module):
    def forward(self, x):
        return mod.filtered(x)
