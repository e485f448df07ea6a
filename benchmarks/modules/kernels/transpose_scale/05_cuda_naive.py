import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

__global__ void transpose_naive(const float* x, const float* scale, float* y, int rows, int cols) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < rows && c < cols) y[c * rows + r] = x[r * cols + c] * scale[c];
}

torch::Tensor transpose_scale(torch::Tensor x, torch::Tensor scale) {
    int rows = x.size(0), cols = x.size(1);
    auto y = torch::empty({cols, rows}, x.options());
    dim3 block(32, 8);
    dim3 grid((cols + 31) / 32, (rows + 7) / 8);
    transpose_naive<<<grid, block>>>(x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""

ext = load_inline(
    name="transpose_naive",
    cpp_sources="torch::Tensor transpose_scale(torch::Tensor x, torch::Tensor scale);",
    cuda_sources=SOURCE,
    functions=["transpose_scale"],
)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x):
        return ext.transpose_scale(x, self.scale)
