import torch
import torch.nn as nn
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#define TILE 32

__global__ void matmul_kernel(const float* a, const float* b, float* c, int rows, int columns, int depth) {
  __shared__ float left[TILE][TILE], right[TILE][TILE];
  const int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
  float sum = 0.0f;
  for (int start = 0; start < depth; start += TILE) {
    const int from_a = start + threadIdx.x, from_b = start + threadIdx.y;
    left[threadIdx.y][threadIdx.x] = row < rows && from_a < depth ? a[row * depth + from_a] : 0.0f;
    right[threadIdx.y][threadIdx.x] = column < columns && from_b < depth ? b[from_b * columns + column] : 0.0f;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE; i++) sum += left[threadIdx.y][i] * right[i][threadIdx.x];
    __syncthreads();
  }
  if (row < rows && column < columns) c[row * columns + column] = sum;
}

torch::Tensor matmul(torch::Tensor a, torch::Tensor b) {
  const int rows = a.size(0), depth = a.size(1), columns = b.size(1);
  auto c = torch::zeros({rows, columns}, a.options());
  const dim3 grid((columns + TILE - 1) / TILE, (rows + TILE - 1) / TILE), block(TILE, TILE);
  matmul_kernel<<<grid, block>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), c.data_ptr<float>(), rows, columns, depth);
  return c;
}
"""
extension = load_inline(
    name="matmul_inline",
    cpp_sources="torch::Tensor matmul(torch::Tensor a, torch::Tensor b);",
    cuda_sources=CUDA,
    functions=["matmul"],
)


class ModelNew(nn.Module):
    def forward(self, a, b):
        return extension.matmul(a, b)
