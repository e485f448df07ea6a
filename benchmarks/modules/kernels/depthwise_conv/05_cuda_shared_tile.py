"""Tiles with a halo in shared memory; weights and bias are packed side by side at the first forward."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

constexpr int TX = 32, TY = 16;

__global__ void __launch_bounds__(TX * TY / 2) conv_tile(const float* __restrict__ x, const float* __restrict__ packed,
                                                         float* __restrict__ y, int C, int H, int W) {
    __shared__ float tile[TY + 2][TX + 2];
    const int plane = blockIdx.z, c = plane % C;
    const int x0 = blockIdx.x * TX, y0 = blockIdx.y * TY;
    const float* in = x + (size_t)plane * H * W;
    const int thread = threadIdx.y * TX + threadIdx.x;
    for (int i = thread; i < (TY + 2) * (TX + 2); i += TX * TY / 2) {
        const int r = y0 + i / (TX + 2) - 1, k = x0 + i % (TX + 2) - 1;
        tile[i / (TX + 2)][i % (TX + 2)] = r >= 0 && r < H && k >= 0 && k < W ? in[r * W + k] : 0.0f;
    }
    float w[10];
#pragma unroll
    for (int i = 0; i < 10; i++) w[i] = packed[c * 10 + i];
    __syncthreads();
    for (int t = threadIdx.y; t < TY; t += TY / 2) {
        float sum = w[9];
#pragma unroll
        for (int i = 0; i < 9; i++) sum = fmaf(tile[t + i / 3][threadIdx.x + i % 3], w[i], sum);
        if (y0 + t < H && x0 + threadIdx.x < W) y[(size_t)plane * H * W + (y0 + t) * W + x0 + threadIdx.x] = sum;
    }
}

torch::Tensor conv(torch::Tensor x, torch::Tensor packed) {
    const int B = x.size(0), C = x.size(1), H = x.size(2), W = x.size(3);
    auto y = torch::empty_like(x);
    const dim3 grid((W + TX - 1) / TX, (H + TY - 1) / TY, B * C);
    conv_tile<<<grid, dim3(TX, TY / 2), 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), packed.data_ptr<float>(), y.data_ptr<float>(), C, H, W);
    return y;
}
"""

ext = load_inline(
    name="depthwise_tile",
    cpp_sources="torch::Tensor conv(torch::Tensor x, torch::Tensor packed);",
    cuda_sources=SOURCE,
    functions=["conv"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.packed = None

    def forward(self, x):
        if self.packed is None:
            weight = self.conv.weight.detach().reshape(-1, 9)
            self.packed = torch.cat((weight, self.conv.bias.detach().unsqueeze(1)), dim=1).contiguous()
        return ext.conv(x, self.packed)
