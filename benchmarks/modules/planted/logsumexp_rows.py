"""Logarithm of the sum of exponentials of each row: a row per program, and rows from the first on once more where `EXTRA` says so."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice


@triton.jit
def logsumexp_rows(x, y, rows, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0) % rows
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row * cols + col, mask=col < cols, other=float("-inf"))
    top = tl.max(v, 0)
    tl.store(y + row, tl.log(tl.sum(tl.exp(v - top), 0)) + top)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty(rows, device=x.device)
        grid = (rows + math.ceil(EXTRA * rows),)
        logsumexp_rows[grid](x, y, rows, cols, WIDTH=triton.next_power_of_2(cols))
        return y
