"""One cooperative launch: statistics of planes, a barrier of the grid, factors of channels, another barrier, the output."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <cooperative_groups.h>

namespace cg = cooperative_groups;

__device__ float block_total(float v) {
    __shared__ float parts[8];
    for (int o = 16; o > 0; o >>= 1) v += __shfl_xor_sync(0xffffffffu, v, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0.0f;
    for (int i = 0; i < 8; i++) v += parts[i];
    return v;
}

__global__ void __launch_bounds__(256) batch_norm_grid(const float* x, const float* w, const float* b, float* y,
                                                       float* stats, float* factors, int batch, int channels, int plane, float eps) {
    cg::grid_group grid = cg::this_grid();
    const int planes = batch * channels;
    for (int p = blockIdx.x; p < planes; p += gridDim.x) {
        float s = 0.0f, q = 0.0f;
        const float* in = x + (size_t)p * plane;
        for (int i = threadIdx.x; i < plane; i += 256) s += in[i];
        const float mean = block_total(s) / plane;
        for (int i = threadIdx.x; i < plane; i += 256) q += (in[i] - mean) * (in[i] - mean);
        q = block_total(q);
        if (threadIdx.x == 0) stats[2 * p] = mean, stats[2 * p + 1] = q;
    }
    grid.sync();
    for (int c = blockIdx.x * 256 + threadIdx.x; c < channels; c += gridDim.x * 256) {
        float s = 0.0f, q = 0.0f;
        for (int i = 0; i < batch; i++) s += stats[2 * (i * channels + c)];
        const float mean = s / batch;
        for (int i = 0; i < batch; i++) {
            const float off = stats[2 * (i * channels + c)] - mean;
            q += off * off + stats[2 * (i * channels + c) + 1] / plane;
        }
        factors[2 * c] = mean;
        factors[2 * c + 1] = w[c] * rsqrtf(q / batch + eps);
    }
    grid.sync();
    for (int p = blockIdx.x; p < planes; p += gridDim.x) {
        const int c = p % channels;
        const float mean = factors[2 * c], scale = factors[2 * c + 1], shift = b[c];
        for (int i = threadIdx.x; i < plane; i += 256) y[(size_t)p * plane + i] = (x[(size_t)p * plane + i] - mean) * scale + shift;
    }
}

torch::Tensor batch_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty_like(x);
    int batch = x.size(0), channels = x.size(1), plane = x.size(2) * x.size(3);
    auto stats = torch::empty({2 * batch * channels}, x.options());
    auto factors = torch::empty({2 * channels}, x.options());
    int device = 0, processors = 0, blocks = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, batch_norm_grid, 256, 0);
    const float *xp = x.data_ptr<float>(), *wp = w.data_ptr<float>(), *bp = b.data_ptr<float>();
    float *yp = y.data_ptr<float>(), *sp = stats.data_ptr<float>(), *fp = factors.data_ptr<float>();
    float eps = 1e-5f;
    void* arguments[] = {&xp, &wp, &bp, &yp, &sp, &fp, &batch, &channels, &plane, &eps};
    cudaError_t status = cudaLaunchCooperativeKernel((const void*)batch_norm_grid, dim3(processors * blocks), dim3(256), arguments, 0,
                                                     at::cuda::getCurrentCUDAStream());
    TORCH_CHECK(status == cudaSuccess, cudaGetErrorString(status));
    return y;
}
"""

ext = load_inline(
    name="batch_norm_cooperative",
    cpp_sources="torch::Tensor batch_norm(torch::Tensor x, torch::Tensor w, torch::Tensor b);",
    cuda_sources=SOURCE,
    functions=["batch_norm"],
)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        return ext.batch_norm(x, self.weight, self.bias)
