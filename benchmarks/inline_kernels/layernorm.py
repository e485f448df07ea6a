import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
__device__ float block_sum(float value) {
  __shared__ float parts[32];
  for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffffu, value, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0.0f;
  for (int i = 0; i < blockDim.x / 32; i++) value += parts[i];
  return value;
}

template <typename T>
__global__ void layernorm_kernel(const T* x, const T* weight, const T* bias, T* y, int columns, float eps) {
  const T* row = x + (size_t)blockIdx.x * columns;
  float sum = 0.0f, squares = 0.0f;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += static_cast<float>(row[i]);
  const float mean = block_sum(sum) / columns;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) {
    const float off = static_cast<float>(row[i]) - mean;
    squares += off * off;
  }
  const float scale = rsqrtf(block_sum(squares) / columns + eps);
  for (int i = threadIdx.x; i < columns; i += blockDim.x)
    y[(size_t)blockIdx.x * columns + i] = static_cast<T>(
        (static_cast<float>(row[i]) - mean) * scale * static_cast<float>(weight[i]) + static_cast<float>(bias[i]));
}

torch::Tensor layernorm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
  auto y = torch::empty_like(x);
  const int columns = x.size(-1);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "layernorm", ([&] {
    layernorm_kernel<scalar_t><<<x.numel() / columns, 256>>>(
        x.data_ptr<scalar_t>(), weight.data_ptr<scalar_t>(), bias.data_ptr<scalar_t>(), y.data_ptr<scalar_t>(),
        columns, eps);
  }));
  return y;
}
"""
extension = load_inline(
    name="layernorm_inline",
    cpp_sources="torch::Tensor layernorm(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps);",
    cuda_sources=CUDA,
    functions=["layernorm"],
    extra_cflags=["-O3"],
    extra_cuda_cflags=["-O3", "--use_fast_math"],
)


class ModelNew(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = nn.LayerNorm(columns)

    def forward(self, x):
        return extension.layernorm(x, self.norm.weight, self.norm.bias, self.norm.eps)
