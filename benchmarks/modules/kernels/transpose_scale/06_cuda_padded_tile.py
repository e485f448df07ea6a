import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void __launch_bounds__(256) transpose_tile(const float* __restrict__ x, const float* __restrict__ scale,
                                                      float* __restrict__ y, int rows, int cols) {
    __shared__ float tile[32][33];
    const int c0 = blockIdx.x * 32, r0 = blockIdx.y * 32;
    const int c = c0 + threadIdx.x;
    const float s = c < cols ? scale[c] : 0.0f;
#pragma unroll
    for (int i = threadIdx.y; i < 32; i += 8)
        if (r0 + i < rows && c < cols) tile[i][threadIdx.x] = x[(size_t)(r0 + i) * cols + c] * s;
    __syncthreads();
    const int r = r0 + threadIdx.x;
#pragma unroll
    for (int i = threadIdx.y; i < 32; i += 8)
        if (c0 + i < cols && r < rows) y[(size_t)(c0 + i) * rows + r] = tile[threadIdx.x][i];
}

at::Tensor transpose_tiled(const at::Tensor& x, const at::Tensor& scale) {
    const int rows = x.size(0), cols = x.size(1);
    at::Tensor y = at::empty({cols, rows}, x.options());
    transpose_tile<<<dim3((cols + 31) / 32, (rows + 31) / 32), dim3(32, 8), 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), scale.data_ptr<float>(), y.data_ptr<float>(), rows, cols);
    return y;
}
"""

ext = load_inline(
    name="transpose_tiles",
    cpp_sources="at::Tensor transpose_tiled(const at::Tensor& x, const at::Tensor& scale);",
    cuda_sources=SOURCE,
    functions=["transpose_tiled"],
)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x):
        return ext.transpose_tiled(x, self.scale)
