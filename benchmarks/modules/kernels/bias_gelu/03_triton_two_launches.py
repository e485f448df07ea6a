"""Not fused: one kernel adds the bias into scratch memory, another applies GELU."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_bias(x, bias, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * cols + col, mask=col < cols)
        tl.store(out + row * cols + col, v + tl.load(bias + col, mask=col < cols), mask=col < cols)


@triton.jit
def gelu(x, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(out + at, 0.5 * v * (1 + tl.erf(v / 1.4142135623730951)), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, product):
        rows, cols = product.shape
        biased = torch.empty_like(product)
        add_bias[(rows,)](product, self.bias, biased, cols, BLOCK=1024)
        out = torch.empty_like(product)
        gelu[(triton.cdiv(out.numel(), 2048),)](biased, out, out.numel(), BLOCK=2048)
        return out
