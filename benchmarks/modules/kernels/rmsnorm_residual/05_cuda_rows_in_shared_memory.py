"""Four rows at a time lie in dynamic shared memory: 64 KiB, above what a block has unasked."""

import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
constexpr int ROWS = 4;

__global__ void add_rms_shared(const float* __restrict__ x, const float* __restrict__ r, const float* __restrict__ w,
                               float* __restrict__ y, float* __restrict__ h, int rows, int cols) {
    extern __shared__ float row_values[];
    __shared__ float squares[ROWS];
    const int first = blockIdx.x * ROWS;
    const int here = min(ROWS, rows - first);
    if (threadIdx.x < ROWS) squares[threadIdx.x] = 0.0f;
    __syncthreads();
    for (int k = 0; k < here; k++) {
        const size_t base = (size_t)(first + k) * cols;
        float sum = 0.0f;
        for (int i = threadIdx.x; i < cols; i += blockDim.x) {
            const float v = x[base + i] + r[base + i];
            row_values[k * cols + i] = v;
            h[base + i] = v;
            sum += v * v;
        }
        for (int o = 16; o > 0; o >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, o);
        if (threadIdx.x % 32 == 0) atomicAdd(&squares[k], sum);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < cols; i += blockDim.x) {
        const float g = w[i];
        for (int k = 0; k < here; k++) {
            const float scale = rsqrtf(squares[k] / cols + 1e-6f);
            y[(size_t)(first + k) * cols + i] = row_values[k * cols + i] * scale * g;
        }
    }
}

void launch(torch::Tensor x, torch::Tensor r, torch::Tensor w, torch::Tensor y, torch::Tensor h) {
    const int rows = x.size(0), cols = x.size(1);
    const int bytes = ROWS * cols * sizeof(float);
    cudaFuncSetAttribute(add_rms_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    add_rms_shared<<<(rows + ROWS - 1) / ROWS, 512, bytes>>>(
        x.data_ptr<float>(), r.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), h.data_ptr<float>(), rows, cols);
}
"""
CPP = "void launch(torch::Tensor x, torch::Tensor r, torch::Tensor w, torch::Tensor y, torch::Tensor h);"

built = load_inline(name="add_rmsnorm_shared", cpp_sources=CPP, cuda_sources=CUDA, functions=["launch"])


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x, residual):
        y = torch.empty_like(x)
        h = torch.empty_like(x)
        built.launch(x, residual, self.weight, y, h)
        return y, h
