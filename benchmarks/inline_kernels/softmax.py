import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <ATen/cuda/CUDAContext.h>

__device__ __forceinline__ float across(float value, bool largest) {
  for (int step = 16; step > 0; step >>= 1) {
    const float other = __shfl_xor_sync(0xffffffffu, value, step);
    value = largest ? fmaxf(value, other) : value + other;
  }
  return value;
}

__global__ void softmax_kernel(const float* __restrict__ x, float* __restrict__ y, int columns) {
  __shared__ float parts[32];
  const float* row = x + (size_t)blockIdx.x * columns;
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x / 32;
  float top = -INFINITY, total = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) top = fmaxf(top, row[i]);
  top = across(top, true);
  if (lane == 0) parts[warp] = top;
  __syncthreads();
  top = across(lane < warps ? parts[lane] : -INFINITY, true);
  __syncthreads();
  for (int i = threadIdx.x; i < columns; i += blockDim.x) total += expf(row[i] - top);
  total = across(total, false);
  if (lane == 0) parts[warp] = total;
  __syncthreads();
  total = across(lane < warps ? parts[lane] : 0.0f, false);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) y[(size_t)blockIdx.x * columns + i] = expf(row[i] - top) / total;
}

torch::Tensor softmax_cuda(torch::Tensor x) {
  TORCH_CHECK(x.is_cuda() && x.is_contiguous(), "x must be contiguous and on the GPU");
  auto y = torch::empty_like(x);
  const int columns = x.size(-1);
  softmax_kernel<<<x.numel() / columns, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
      x.data_ptr<float>(), y.data_ptr<float>(), columns);
  return y;
}
"""
extension = load_inline(
    name="softmax_inline",
    cpp_sources="torch::Tensor softmax_cuda(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["softmax_cuda"],
    extra_cuda_cflags=["-O3"],
)


class ModelNew(nn.Module):
    def forward(self, x):
        return extension.softmax_cuda(x)
