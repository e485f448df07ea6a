import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

__device__ float total(float* buf, float v) {
    int tid = threadIdx.x;
    __syncthreads();
    buf[tid] = v;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (tid < k) buf[tid] += buf[tid + k];
        __syncthreads();
    }
    return buf[0];
}

__global__ void layernorm_kernel(const float* x, const float* w, const float* b, float* y, int n, float eps) {
    extern __shared__ float buf[];
    int row = blockIdx.x;
    int tid = threadIdx.x;
    float sum = 0, sq = 0;
    for (int i = tid; i < n; i += blockDim.x) sum += x[row * (long long)n + i];
    float mean = total(buf, sum) / n;
    for (int i = tid; i < n; i += blockDim.x) {
        float v = x[row * (long long)n + i] - mean;
        sq += v * v;
    }
    float rstd = rsqrtf(total(buf, sq) / n + eps);
    for (int i = tid; i < n; i += blockDim.x) {
        long long at = row * (long long)n + i;
        y[at] = (x[at] - mean) * rstd * w[i] + b[i];
    }
}

torch::Tensor layernorm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps) {
    auto y = torch::empty_like(x);
    const int threads = 512;
    layernorm_kernel<<<x.size(0), threads, threads * sizeof(float)>>>(
        x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), x.size(1), (float)eps);
    return y;
}
"""
cpp_src = "torch::Tensor layernorm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps);"

mod = load_inline("layernorm_block", cpp_sources=[cpp_src], cuda_sources=[cuda_src], functions=["layernorm"])


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, x):
        return mod.layernorm(x, self.weight, self.bias, 1e-5)
