"""Layer normalisation in three walks over a row.

Blocks beyond the last one, where `EXTRA` asks for them, come from memory beside the task's, and go there.
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice
BLOCK = 512


@triton.jit(do_not_specialize=["extra"])
def layernorm(x, weight, bias, y, spare, cols, extra, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    sums = tl.zeros((BLOCK,), tl.float32)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        sums += tl.load(x + row * cols + start + col, mask=start + col < cols, other=0.0)
    for i in range(extra):
        sums += tl.load(spare + (row * extra + i) * BLOCK + col)
    mean = tl.sum(sums, 0) / cols
    for start in range(0, cols, BLOCK):
        inside = start + col < cols
        off = tl.where(inside, tl.load(x + row * cols + start + col, mask=inside) - mean, 0.0)
        squares += off * off
    scale = tl.rsqrt(tl.sum(squares, 0) / cols + 1e-5)
    for start in range(0, cols, BLOCK):
        inside = start + col < cols
        v = (tl.load(x + row * cols + start + col, mask=inside) - mean) * scale
        v = v * tl.load(weight + start + col, mask=inside) + tl.load(bias + start + col, mask=inside)
        tl.store(y + row * cols + start + col, v, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)
        self.bias = nn.Parameter(torch.randn(cols))
        self.spare = None

    def forward(self, x):
        rows, cols = x.shape
        extra = math.ceil(EXTRA * 3 * triton.cdiv(cols, BLOCK))
        if self.spare is None or self.spare.numel() < rows * extra * BLOCK:
            self.spare = torch.zeros(rows * max(extra, 1) * BLOCK, device=x.device)
        y = torch.empty_like(x)
        layernorm[(rows,)](x, self.weight, self.bias, y, self.spare, cols, extra, BLOCK=BLOCK)
        return y
