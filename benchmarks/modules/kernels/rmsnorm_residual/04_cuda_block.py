import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <vector>

__global__ void add_rms(const float* x, const float* r, const float* w, float* y, float* h, int cols) {
    __shared__ float parts[32];
    const long long base = (long long)blockIdx.x * cols;
    float sq = 0.0f;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        const float v = x[base + i] + r[base + i];
        h[base + i] = v;
        sq += v * v;
    }
    for (int o = 16; o > 0; o /= 2) sq += __shfl_down_sync(0xffffffffu, sq, o);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = sq;
    __syncthreads();
    if (threadIdx.x < 32) {
        sq = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0.0f;
        for (int o = 16; o > 0; o /= 2) sq += __shfl_down_sync(0xffffffffu, sq, o);
        if (threadIdx.x == 0) parts[0] = rsqrtf(sq / cols + 1e-6f);
    }
    __syncthreads();
    const float scale = parts[0];
    for (int i = threadIdx.x; i < cols; i += blockDim.x) y[base + i] = h[base + i] * scale * w[i];
}

std::vector<torch::Tensor> add_rmsnorm(torch::Tensor x, torch::Tensor residual, torch::Tensor weight) {
    auto y = torch::empty_like(x);
    auto h = torch::empty_like(x);
    add_rms<<<x.size(0), 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), residual.data_ptr<float>(), weight.data_ptr<float>(), y.data_ptr<float>(),
        h.data_ptr<float>(), x.size(1));
    return {y, h};
}
"""
CPP = "std::vector<torch::Tensor> add_rmsnorm(torch::Tensor x, torch::Tensor residual, torch::Tensor weight);"

ext = load_inline(name="add_rmsnorm_block", cpp_sources=CPP, cuda_sources=CUDA, functions=["add_rmsnorm"])


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x, residual):
        y, h = ext.add_rmsnorm(x, residual, self.weight)
        return y, h
