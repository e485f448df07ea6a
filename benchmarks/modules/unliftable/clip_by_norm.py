"""Reads the norm on the host, and launches the scaling only where it is needed."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def squares(x, parts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0.0)
    tl.store(parts + tl.program_id(0), tl.sum(v * v, 0))


@triton.jit
def scaled(x, y, n, factor, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * factor, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def forward(self, x):
        n = x.numel()
        blocks = triton.cdiv(n, 4096)
        parts = torch.empty(blocks, device=x.device)
        squares[(blocks,)](x, parts, n, BLOCK=4096)
        norm = parts.sum().sqrt().item()
        if norm <= self.limit:
            return x.clone()
        y = torch.empty_like(x)
        scaled[(blocks,)](x, y, n, self.limit / norm, BLOCK=4096)
        return y
