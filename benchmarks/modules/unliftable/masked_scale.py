"""Selects by boolean indexing, works on what was selected, and puts it back."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def tanh_(v, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(v + at, mask=at < n, other=0.0)
    e = tl.exp(-2.0 * tl.abs(x))
    t = (1.0 - e) / (1.0 + e)
    tl.store(v + at, tl.where(x < 0, -t, t), mask=at < n)


class ModelNew(nn.Module):
    def forward(self, x, mask):
        selected = x[mask]
        if selected.numel() > 0:
            tanh_[(triton.cdiv(selected.numel(), 1024),)](selected, selected.numel(), BLOCK=1024)
        y = x.clone()
        y[mask] = selected
        return y
