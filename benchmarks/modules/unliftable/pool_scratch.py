"""Means of rows lie in memory that each call takes from CUDA's pool and gives back."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

__global__ void means(const float* x, float* found, int n) {
    __shared__ float part[32];
    float sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += x[blockIdx.x * (long long)n + i];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 1; k < blockDim.x / 32; k++) sum += part[k];
        found[blockIdx.x] = sum / n;
    }
}

__global__ void subtract(const float* x, const float* found, float* y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        long long at = blockIdx.x * (long long)n + i;
        y[at] = x[at] - found[blockIdx.x];
    }
}

torch::Tensor centred(torch::Tensor x, int64_t stream) {
    int rows = x.size(0), n = x.size(1);
    auto y = torch::empty_like(x);
    auto on = reinterpret_cast<cudaStream_t>(stream);
    float* found = nullptr;
    TORCH_CHECK(cudaMallocAsync((void**)&found, rows * sizeof(float), on) == cudaSuccess);
    means<<<rows, 256, 0, on>>>(x.data_ptr<float>(), found, n);
    subtract<<<rows, 256, 0, on>>>(x.data_ptr<float>(), found, y.data_ptr<float>(), n);
    TORCH_CHECK(cudaFreeAsync(found, on) == cudaSuccess);
    return y;
}
"""
cpp_src = "torch::Tensor centred(torch::Tensor x, int64_t stream);"

mod = load_inline("pool_scratch", cpp_sources=[cpp_src], cuda_sources=[cuda_src], functions=["centred"])


class ModelNew(nn.Module):
    def forward(self, x):
        return mod.centred(x, torch.cuda.current_stream().cuda_stream)
