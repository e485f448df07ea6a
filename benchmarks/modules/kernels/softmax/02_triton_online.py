"""Keeps a running maximum and sum over blocks of a row, then goes over the row once more to write."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def online(x, y, cols, BLOCK: tl.constexpr):
    x += tl.program_id(0) * cols
    y += tl.program_id(0) * cols
    top = -float("inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < cols, other=-float("inf"))
        new = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new), 0)
        top = new
    for start in range(0, cols, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + at, mask=at < cols, other=0.0)
        tl.store(y + at, tl.exp(v - top) / total, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        online[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
        return y
