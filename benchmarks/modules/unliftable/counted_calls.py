"""A function of the host counts the calls, in the stream's order."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

cuda_src = r"""
#include <torch/extension.h>
#include <atomic>

static std::atomic<long long> calls;

static void count(void*) { calls++; }

__global__ void silu(const float4* x, float4* y, long long n) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < n; i += (long long)gridDim.x * blockDim.x) {
        float4 v = x[i];
        v.x /= 1 + expf(-v.x);
        v.y /= 1 + expf(-v.y);
        v.z /= 1 + expf(-v.z);
        v.w /= 1 + expf(-v.w);
        y[i] = v;
    }
}

torch::Tensor counted_silu(torch::Tensor x, int64_t stream) {
    auto y = torch::empty_like(x);
    auto on = reinterpret_cast<cudaStream_t>(stream);
    silu<<<1056, 512, 0, on>>>((const float4*)x.data_ptr<float>(), (float4*)y.data_ptr<float>(), x.numel() / 4);
    TORCH_CHECK(cudaLaunchHostFunc(on, count, nullptr) == cudaSuccess);
    return y;
}
"""
cpp_src = "torch::Tensor counted_silu(torch::Tensor x, int64_t stream);"

mod = load_inline("counted_calls", cpp_sources=[cpp_src], cuda_sources=[cuda_src], functions=["counted_silu"])


class ModelNew(nn.Module):
    def forward(self, x):
        return mod.counted_silu(x, torch.cuda.current_stream().cuda_stream)
