import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>

__global__ void scan_rows(const float* __restrict__ x, float* __restrict__ y, int cols) {
    __shared__ float totals[8];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    x += (size_t)blockIdx.x * cols;
    y += (size_t)blockIdx.x * cols;
    float carry = 0.0f;
    for (int start = 0; start < cols; start += 1024) {
        const int at = start + threadIdx.x * 4;
        float v[4];
        for (int k = 0; k < 4; k++) v[k] = at + k < cols ? x[at + k] : 0.0f;
        v[1] += v[0];
        v[2] += v[1];
        v[3] += v[2];
        float sum = v[3];
        for (int o = 1; o < 32; o <<= 1) {
            const float other = __shfl_up_sync(0xffffffffu, sum, o);
            if (lane >= o) sum += other;
        }
        if (lane == 31) totals[warp] = sum;
        __syncthreads();
        float before = carry + sum - v[3];
        float all = 0.0f;
        for (int w = 0; w < 8; w++) {
            if (w < warp) before += totals[w];
            all += totals[w];
        }
        for (int k = 0; k < 4; k++)
            if (at + k < cols) y[at + k] = before + v[k];
        carry += all;
        __syncthreads();
    }
}

torch::Tensor scan(torch::Tensor x) {
    auto y = torch::empty_like(x);
    scan_rows<<<x.size(0), 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.size(1));
    return y;
}
"""

ext = load_inline(name="cumsum_warps", cpp_sources="torch::Tensor scan(torch::Tensor x);", cuda_sources=SOURCE, functions=["scan"])


class ModelNew(nn.Module):
    def forward(self, x):
        return ext.scan(x)
