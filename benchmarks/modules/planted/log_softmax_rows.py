"""Logarithm of softmax over rows: a row per program, and rows from the first on once more where `EXTRA` says so."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice


@triton.jit
def log_softmax_rows(x, y, rows, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0) % rows
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row * cols + col, mask=col < cols, other=float("-inf"))
    v = v - tl.max(v, 0)
    tl.store(y + row * cols + col, v - tl.log(tl.sum(tl.exp(v), 0)), mask=col < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        grid = (rows + math.ceil(EXTRA * rows),)
        log_softmax_rows[grid](x, y, rows, cols, WIDTH=triton.next_power_of_2(cols))
        return y
