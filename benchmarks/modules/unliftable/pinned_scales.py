"""The scales lie in the host's memory, which kernels read over the bus."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

__global__ void scale(const float* x, const float* scales, float* y, int rows, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float by = scales[i];
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        long long at = row * (long long)n + i;
        y[at] = x[at] * by;
    }
}

torch::Tensor scaled(torch::Tensor x, torch::Tensor scales) {
    auto y = torch::empty_like(x);
    int n = x.size(1);
    scale<<<dim3((n + 127) / 128, 256), 128>>>(
        x.data_ptr<float>(), scales.data_ptr<float>(), y.data_ptr<float>(), x.size(0), n);
    return y;
}
"""
cpp_src = "torch::Tensor scaled(torch::Tensor x, torch::Tensor scales);"

mod = load_inline("pinned_scales", cpp_sources=[cpp_src], cuda_sources=[cuda_src], functions=["scaled"])


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.pinned = torch.linspace(0.5, 2.0, 4096, device="cpu").pin_memory()

    def forward(self, x):
        return mod.scaled(x, self.pinned)
