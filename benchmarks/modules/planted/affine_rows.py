"""A factor and a summand for each column: a row per program, and rows from the first on once more where `EXTRA` says so."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice


@triton.jit
def affine_rows(x, weight, bias, y, rows, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0) % rows
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    w = tl.load(weight + col, mask=col < cols)
    b = tl.load(bias + col, mask=col < cols)
    tl.store(y + row * cols + col, v * w + b, mask=col < cols)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        grid = (rows + math.ceil(EXTRA * rows),)
        affine_rows[grid](x, self.weight, self.bias, y, rows, cols, WIDTH=triton.next_power_of_2(cols))
        return y
