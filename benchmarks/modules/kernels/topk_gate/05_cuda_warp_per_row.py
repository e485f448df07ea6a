import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <tuple>

// Two logits per lane; the winner is known to all lanes after five exchanges.
__device__ __forceinline__ void largest(float v, int at, float& best, int& where) {
    for (int o = 16; o > 0; o >>= 1) {
        const float other = __shfl_xor_sync(0xffffffffu, v, o);
        const int other_at = __shfl_xor_sync(0xffffffffu, at, o);
        if (other > v || (other == v && other_at < at)) v = other, at = other_at;
    }
    best = v;
    where = at;
}

__global__ void gate_warps(const float2* __restrict__ logits, float2* __restrict__ weights, longlong2* __restrict__ experts, int tokens) {
    const int token = blockIdx.x * 4 + threadIdx.x / 32;
    if (token >= tokens) return;
    const int lane = threadIdx.x % 32;
    float2 v = logits[(size_t)token * 32 + lane];
    float a, b;
    int ia, ib;
    largest(fmaxf(v.x, v.y), v.x >= v.y ? 2 * lane : 2 * lane + 1, a, ia);
    if (ia == 2 * lane) v.x = -INFINITY;
    if (ia == 2 * lane + 1) v.y = -INFINITY;
    largest(fmaxf(v.x, v.y), v.x >= v.y ? 2 * lane : 2 * lane + 1, b, ib);
    if (lane == 0) {
        const float p = __expf(b - a);
        weights[token] = make_float2(1.0f / (1.0f + p), p / (1.0f + p));
        experts[token] = make_longlong2(ia, ib);
    }
}

std::tuple<torch::Tensor, torch::Tensor> gate_top2(torch::Tensor logits) {
    TORCH_CHECK(logits.size(1) == 64, "64 experts");
    const int tokens = logits.size(0);
    auto weights = torch::empty({tokens, 2}, logits.options());
    auto experts = torch::empty({tokens, 2}, logits.options().dtype(torch::kLong));
    gate_warps<<<(tokens + 3) / 4, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
        (const float2*)logits.data_ptr<float>(), (float2*)weights.data_ptr<float>(), (longlong2*)experts.data_ptr<int64_t>(), tokens);
    return std::make_tuple(weights, experts);
}
"""

ext = load_inline(
    name="gate_warps",
    cpp_sources="std::tuple<torch::Tensor, torch::Tensor> gate_top2(torch::Tensor logits);",
    cuda_sources=SOURCE,
    functions=["gate_top2"],
)


class ModelNew(nn.Module):
    def forward(self, logits):
        return ext.gate_top2(logits)
