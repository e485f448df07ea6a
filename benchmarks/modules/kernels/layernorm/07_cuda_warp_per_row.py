import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffff, v, o);
    return v;
}

__global__ void ln_warp(const float4* __restrict__ x, const float4* __restrict__ w, const float4* __restrict__ b,
                        float4* __restrict__ y, int rows, int vectors, float eps) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const float4* in = x + (size_t)row * vectors;
    float4* out = y + (size_t)row * vectors;
    float sum = 0.f;
    for (int i = threadIdx.x; i < vectors; i += 32) {
        float4 v = in[i];
        sum += v.x + v.y + v.z + v.w;
    }
    const float n = 4.f * vectors;
    const float mean = warp_sum(sum) / n;
    float sq = 0.f;
    for (int i = threadIdx.x; i < vectors; i += 32) {
        float4 v = in[i];
        v.x -= mean; v.y -= mean; v.z -= mean; v.w -= mean;
        sq += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
    }
    const float rstd = rsqrtf(warp_sum(sq) / n + eps);
    for (int i = threadIdx.x; i < vectors; i += 32) {
        const float4 v = in[i], g = w[i], s = b[i];
        out[i] = make_float4((v.x - mean) * rstd * g.x + s.x, (v.y - mean) * rstd * g.y + s.y,
                             (v.z - mean) * rstd * g.z + s.z, (v.w - mean) * rstd * g.w + s.w);
    }
}

torch::Tensor ln_forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    const int rows = x.size(0);
    const int cols = x.size(1);
    TORCH_CHECK(cols % 4 == 0);
    auto y = at::empty_like(x);
    dim3 block(32, 4);
    ln_warp<<<(rows + 3) / 4, block, 0, c10::cuda::getCurrentCUDAStream()>>>(
        (const float4*)x.data_ptr<float>(), (const float4*)w.data_ptr<float>(), (const float4*)b.data_ptr<float>(),
        (float4*)y.data_ptr<float>(), rows, cols / 4, 1e-5f);
    return y;
}
"""

ext = load_inline(
    name="layernorm_warp",
    cpp_sources="torch::Tensor ln_forward(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=CUDA,
    functions=["ln_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, x):
        return ext.ln_forward(x.contiguous(), self.weight, self.bias)
