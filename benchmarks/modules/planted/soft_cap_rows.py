"""Soft cap of logits, then softmax: a row per program, and rows from the first on once more where `EXTRA` says so."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice


@triton.jit
def soft_cap_rows(x, y, rows, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0) % rows
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    e = tl.exp(tl.minimum(v * -0.25, 80.0))
    v = 8.0 * (1.0 - e) / (1.0 + e)
    v = tl.where(col < cols, v, float("-inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * cols + col, e / tl.sum(e, 0), mask=col < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        grid = (rows + math.ceil(EXTRA * rows),)
        soft_cap_rows[grid](x, y, rows, cols, WIDTH=triton.next_power_of_2(cols))
        return y
