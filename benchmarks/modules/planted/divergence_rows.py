"""Divergence of each row of logits from a row of probabilities: a row per program, and rows from the first on once more where `EXTRA` says so."""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice


@triton.jit
def divergence_rows(x, p, y, rows, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0) % rows
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row * cols + col, mask=col < cols, other=float("-inf"))
    q = tl.load(p + row * cols + col, mask=col < cols, other=0.0)
    v = v - tl.max(v, 0)
    v = v - tl.log(tl.sum(tl.exp(v), 0))
    terms = tl.where(col < cols, q * (tl.log(tl.maximum(q, 1e-9)) - v), 0.0)
    tl.store(y + row, tl.sum(terms, 0))


class ModelNew(nn.Module):
    def forward(self, x, p):
        rows, cols = x.shape
        y = torch.empty(rows, device=x.device)
        grid = (rows + math.ceil(EXTRA * rows),)
        divergence_rows[grid](x, p, y, rows, cols, WIDTH=triton.next_power_of_2(cols))
        return y
