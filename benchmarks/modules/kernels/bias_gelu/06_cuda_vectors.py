import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__device__ __forceinline__ float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.7071067811865476f)); }

__global__ void gelu_vectors(const float4* __restrict__ x, const float4* __restrict__ bias, float4* __restrict__ y,
                             size_t count, unsigned per_row) {
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        const float4 v = __ldg(x + i);
        const float4 b = __ldg(bias + i % per_row);
        y[i] = make_float4(gelu(v.x + b.x), gelu(v.y + b.y), gelu(v.z + b.z), gelu(v.w + b.w));
    }
}

torch::Tensor gelu_forward(torch::Tensor x, torch::Tensor bias) {
    TORCH_CHECK(x.size(-1) % 4 == 0);
    auto y = torch::empty_like(x);
    const size_t count = x.numel() / 4;
    const int blocks = std::min<size_t>((count + 255) / 256, 132 * 16);
    gelu_vectors<<<blocks, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        reinterpret_cast<const float4*>(x.data_ptr<float>()), reinterpret_cast<const float4*>(bias.data_ptr<float>()),
        reinterpret_cast<float4*>(y.data_ptr<float>()), count, x.size(-1) / 4);
    return y;
}
"""

built = load_inline(
    name="bias_gelu_vectors",
    cpp_sources="torch::Tensor gelu_forward(torch::Tensor x, torch::Tensor bias);",
    cuda_sources=SOURCE,
    functions=["gelu_forward"],
)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, product):
        return built.gelu_forward(product, self.bias)
