"""Hillis and Steele's scan of a whole row between two buffers in dynamic shared memory (64 KiB)."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void doubling_scan(const float* __restrict__ x, float* __restrict__ y, int cols) {
    extern __shared__ float buffers[];
    float* from = buffers;
    float* to = buffers + cols;
    const size_t base = (size_t)blockIdx.x * cols;
    for (int i = threadIdx.x; i < cols; i += blockDim.x) from[i] = x[base + i];
    __syncthreads();
    for (int step = 1; step < cols; step *= 2) {
        for (int i = threadIdx.x; i < cols; i += blockDim.x) to[i] = i >= step ? from[i] + from[i - step] : from[i];
        __syncthreads();
        float* swap = from;
        from = to;
        to = swap;
    }
    for (int i = threadIdx.x; i < cols; i += blockDim.x) y[base + i] = from[i];
}

torch::Tensor cumsum_doubling(torch::Tensor x) {
    auto y = torch::empty_like(x);
    const int cols = x.size(1);
    const int bytes = 2 * cols * sizeof(float);
    static int allowed = 0;
    if (bytes > allowed) {
        cudaFuncSetAttribute(doubling_scan, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
        allowed = bytes;
    }
    doubling_scan<<<x.size(0), 1024, bytes, at::cuda::getCurrentCUDAStream()>>>(x.data_ptr<float>(), y.data_ptr<float>(), cols);
    return y;
}
"""

ext = load_inline(
    name="cumsum_doubling",
    cpp_sources="torch::Tensor cumsum_doubling(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["cumsum_doubling"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.cumsum_doubling(x)
