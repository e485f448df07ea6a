"""Cross entropy of each row: a row per program, and rows from the first on once more where `EXTRA` says so."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice


@triton.jit
def cross_entropy_rows(x, targets, y, rows, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0) % rows
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row * cols + col, mask=col < cols, other=float("-inf"))
    top = tl.max(v, 0)
    own = tl.load(x + row * cols + tl.load(targets + row))
    tl.store(y + row, tl.log(tl.sum(tl.exp(v - top), 0)) + top - own)


class ModelNew(nn.Module):
    def forward(self, x, targets):
        rows, cols = x.shape
        y = torch.empty(rows, device=x.device)
        grid = (rows + math.ceil(EXTRA * rows),)
        cross_entropy_rows[grid](x, targets, y, rows, cols, WIDTH=triton.next_power_of_2(cols))
        return y
