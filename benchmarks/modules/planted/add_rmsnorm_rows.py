"""RMS normalisation of a sum: a row per program, and rows from the first on once more where `EXTRA` says so."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice


@triton.jit
def add_rmsnorm_rows(x, other, weight, y, rows, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0) % rows
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    v += tl.load(other + row * cols + col, mask=col < cols, other=0.0)
    scale = tl.rsqrt(tl.sum(v * v, 0) / cols + 1e-6)
    tl.store(y + row * cols + col, v * scale * tl.load(weight + col, mask=col < cols), mask=col < cols)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x, other):
        rows, cols = x.shape
        y = torch.empty_like(x)
        grid = (rows + math.ceil(EXTRA * rows),)
        add_rmsnorm_rows[grid](x, other, self.weight, y, rows, cols, WIDTH=triton.next_power_of_2(cols))
        return y
