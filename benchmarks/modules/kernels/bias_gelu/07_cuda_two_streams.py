"""Each half of the rows on a stream; the second one forks from the current stream by an event and joins it again."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void gelu_part(const float* __restrict__ x, const float* __restrict__ bias, float* __restrict__ y, int rows, int cols) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols) return;
    const float b = bias[col];
    for (int row = blockIdx.y; row < rows; row += gridDim.y) {
        const float v = x[(size_t)row * cols + col] + b;
        y[(size_t)row * cols + col] = 0.5f * v * (1.0f + erff(v * 0.70710678f));
    }
}

torch::Tensor forked(torch::Tensor x, torch::Tensor bias) {
    static cudaStream_t side = nullptr;
    static cudaEvent_t begun, done;
    if (side == nullptr) {
        cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&begun, cudaEventDisableTiming);
        cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
    }
    cudaStream_t main = at::cuda::getCurrentCUDAStream();
    auto y = torch::empty_like(x);
    const int rows = x.size(0), cols = x.size(1), half = rows / 2;
    const float* in = x.data_ptr<float>();
    float* out = y.data_ptr<float>();
    const dim3 grid((cols + 255) / 256, 64);
    cudaEventRecord(begun, main);
    cudaStreamWaitEvent(side, begun, 0);
    gelu_part<<<grid, 256, 0, main>>>(in, bias.data_ptr<float>(), out, half, cols);
    gelu_part<<<grid, 256, 0, side>>>(in + (size_t)half * cols, bias.data_ptr<float>(), out + (size_t)half * cols, rows - half, cols);
    cudaEventRecord(done, side);
    cudaStreamWaitEvent(main, done, 0);
    return y;
}
"""

built = load_inline(
    name="bias_gelu_forked",
    cpp_sources="torch::Tensor forked(torch::Tensor x, torch::Tensor bias);",
    cuda_sources=SOURCE,
    functions=["forked"],
)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, product):
        return built.forked(product, self.bias)
