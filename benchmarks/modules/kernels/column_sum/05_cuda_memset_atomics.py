import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>

__global__ void add_strips(const float* __restrict__ x, float* __restrict__ y, int rows, int cols, int strip) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= cols) return;
    const int end = min(rows, (int)(blockIdx.y + 1) * strip);
    float sum = 0.0f;
    for (int r = blockIdx.y * strip; r < end; r++) sum += x[(size_t)r * cols + c];
    atomicAdd(y + c, sum);
}

torch::Tensor column_sum_atomic(torch::Tensor x) {
    const int rows = x.size(0), cols = x.size(1), strip = 256;
    auto y = torch::empty({cols}, x.options());
    cudaStream_t stream = at::cuda::getCurrentCUDAStream();
    cudaMemsetAsync(y.data_ptr<float>(), 0, cols * sizeof(float), stream);
    add_strips<<<dim3((cols + 127) / 128, (rows + strip - 1) / strip), 128, 0, stream>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), rows, cols, strip);
    return y;
}
"""

ext = load_inline(
    name="column_sum_memset",
    cpp_sources="torch::Tensor column_sum_atomic(torch::Tensor x);",
    cuda_sources=SOURCE,
    functions=["column_sum_atomic"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.column_sum_atomic(x)
