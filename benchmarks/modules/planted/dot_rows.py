"""Product of the rows of two matrices: a row per program, and rows from the first on once more where `EXTRA` says so."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice


@triton.jit
def dot_rows(x, other, y, rows, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0) % rows
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    u = tl.load(other + row * cols + col, mask=col < cols, other=0.0)
    tl.store(y + row, tl.sum(v * u, 0))


class ModelNew(nn.Module):
    def forward(self, x, other):
        rows, cols = x.shape
        y = torch.empty(rows, device=x.device)
        grid = (rows + math.ceil(EXTRA * rows),)
        dot_rows[grid](x, other, y, rows, cols, WIDTH=triton.next_power_of_2(cols))
        return y
