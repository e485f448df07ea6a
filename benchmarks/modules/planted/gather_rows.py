"""Rows of a table in a given order: a row per program, and rows from the first on once more where `EXTRA` says so."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice


@triton.jit
def gather_rows(x, order, weight, y, rows, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0) % rows
    col = tl.arange(0, WIDTH)
    v = tl.load(x + tl.load(order + row) * cols + col, mask=col < cols)
    tl.store(y + row * cols + col, v * tl.load(weight + col, mask=col < cols), mask=col < cols)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x, order):
        rows, cols = x.shape
        y = torch.empty_like(x)
        grid = (rows + math.ceil(EXTRA * rows),)
        gather_rows[grid](x, order, self.weight, y, rows, cols, WIDTH=triton.next_power_of_2(cols))
        return y
