import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def transpose_scale(x, scale, y, rows, cols, TILE: tl.constexpr):
    r = tl.program_id(0) * TILE + tl.arange(0, TILE)
    c = tl.program_id(1) * TILE + tl.arange(0, TILE)
    inside = (r[:, None] < rows) & (c[None, :] < cols)
    v = tl.load(x + r[:, None] * cols + c[None, :], mask=inside)
    v *= tl.load(scale + c, mask=c < cols)[None, :]
    tl.store(y + c[:, None] * rows + r[None, :], tl.trans(v), mask=tl.trans(inside))


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty((cols, rows), device=x.device, dtype=x.dtype)
        transpose_scale[(triton.cdiv(rows, 64), triton.cdiv(cols, 64))](x, self.scale, y, rows, cols, TILE=64, num_warps=8)
        return y
