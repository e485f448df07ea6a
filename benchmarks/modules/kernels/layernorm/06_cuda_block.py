import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>

__global__ void layernorm_kernel(const float* x, const float* w, const float* b, float* y, int n, float eps) {
    extern __shared__ float buf[];
    float* s1 = buf;
    float* s2 = buf + blockDim.x;
    int row = blockIdx.x;
    int tid = threadIdx.x;
    float sum = 0, sq = 0;
    for (int i = tid; i < n; i += blockDim.x) {
        float v = x[row * (long long)n + i];
        sum += v;
        sq += v * v;
    }
    s1[tid] = sum;
    s2[tid] = sq;
    __syncthreads();
    for (int k = blockDim.x / 2; k > 0; k /= 2) {
        if (tid < k) {
            s1[tid] += s1[tid + k];
            s2[tid] += s2[tid + k];
        }
        __syncthreads();
    }
    float mean = s1[0] / n;
    float rstd = rsqrtf(s2[0] / n - mean * mean + eps);
    for (int i = tid; i < n; i += blockDim.x) {
        long long at = row * (long long)n + i;
        y[at] = (x[at] - mean) * rstd * w[i] + b[i];
    }
}

torch::Tensor layernorm(torch::Tensor x, torch::Tensor w, torch::Tensor b, double eps) {
    auto y = torch::empty_like(x);
    const int threads = 512;
    layernorm_kernel<<<x.size(0), threads, 2 * threads * sizeof(float)>>>(
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
