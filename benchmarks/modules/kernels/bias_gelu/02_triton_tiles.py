import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tile_kernel(x, bias, y, rows, cols, TILE_M: tl.constexpr, TILE_N: tl.constexpr):
    i = tl.program_id(1) * TILE_M + tl.arange(0, TILE_M)
    j = tl.program_id(0) * TILE_N + tl.arange(0, TILE_N)
    b = tl.load(bias + j, mask=j < cols)
    inside = (i[:, None] < rows) & (j[None, :] < cols)
    at = i[:, None] * cols + j[None, :]
    v = tl.load(x + at, mask=inside) + b[None, :]
    tl.store(y + at, v * 0.5 * (1.0 + tl.erf(v * 0.70710678118654752)), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, product):
        rows, cols = product.shape
        y = torch.empty_like(product)
        tile_kernel[(triton.cdiv(cols, 256), triton.cdiv(rows, 16))](
            product, self.bias, y, rows, cols, TILE_M=16, TILE_N=256
        )
        return y
