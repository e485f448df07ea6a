"""Rotation of pairs of columns by given angles: a row per program, and rows from the first on once more where `EXTRA` says so."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice


@triton.jit
def rope_rows(x, cos, sin, y, rows, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0) % rows
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row * cols + col, mask=col < cols, other=0.0)
    half = cols // 2
    turned = tl.where(col < half, col + half, col - half)
    t = tl.load(x + row * cols + turned, mask=col < cols, other=0.0)
    t = tl.where(col < half, -t, t)
    c = tl.load(cos + row * cols + col, mask=col < cols)
    s = tl.load(sin + row * cols + col, mask=col < cols)
    tl.store(y + row * cols + col, v * c + t * s, mask=col < cols)


class ModelNew(nn.Module):
    def forward(self, x, cos, sin):
        rows, cols = x.shape
        y = torch.empty_like(x)
        grid = (rows + math.ceil(EXTRA * rows),)
        rope_rows[grid](x, cos, sin, y, rows, cols, WIDTH=triton.next_power_of_2(cols))
        return y
