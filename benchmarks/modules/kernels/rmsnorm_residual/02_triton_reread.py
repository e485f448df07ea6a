"""Writes the sum, and reads it back for the normalisation."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def fused_add_norm(x, res, w, out, total, n, BLOCK: tl.constexpr):
    base = tl.program_id(0) * n
    squares = tl.zeros([BLOCK], tl.float32)
    for i in range(0, n, BLOCK):
        k = i + tl.arange(0, BLOCK)
        ok = k < n
        v = tl.load(x + base + k, mask=ok, other=0.0) + tl.load(res + base + k, mask=ok, other=0.0)
        squares += v * v
        tl.store(total + base + k, v, mask=ok)
    factor = 1.0 / tl.sqrt(tl.sum(squares, 0) / n + 1e-6)
    for i in range(0, n, BLOCK):
        k = i + tl.arange(0, BLOCK)
        ok = k < n
        v = tl.load(x + base + k, mask=ok, other=0.0) + tl.load(res + base + k, mask=ok, other=0.0)
        tl.store(out + base + k, v * factor * tl.load(w + k, mask=ok), mask=ok)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x, residual):
        out = torch.empty_like(x)
        total = torch.empty_like(x)
        fused_add_norm[(x.size(0),)](x, residual, self.weight, out, total, x.size(1), BLOCK=512)
        return out, total
