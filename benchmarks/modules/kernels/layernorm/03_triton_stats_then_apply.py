"""One kernel for mean and deviation of each row, another for the output: two numbers per row lie in scratch memory."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def stats(x, mean, rstd, cols, eps, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, WIDTH)
    v = tl.load(x + row * cols + at, mask=at < cols, other=0.0)
    m = tl.sum(v, 0) / cols
    d = tl.where(at < cols, v - m, 0.0)
    tl.store(mean + row, m)
    tl.store(rstd + row, tl.rsqrt(tl.sum(d * d, 0) / cols + eps))


@triton.jit
def apply(x, y, mean, rstd, weight, bias, total, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    row = at // cols
    col = at % cols
    v = tl.load(x + at, mask=inside)
    v = (v - tl.load(mean + row, mask=inside)) * tl.load(rstd + row, mask=inside)
    v = v * tl.load(weight + col, mask=inside) + tl.load(bias + col, mask=inside)
    tl.store(y + at, v, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, x):
        rows, cols = x.shape
        mean = torch.empty(rows, dtype=torch.float32, device=x.device)
        rstd = torch.empty_like(mean)
        stats[(rows,)](x, mean, rstd, cols, 1e-5, WIDTH=triton.next_power_of_2(cols))
        y = torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 1024),)
        apply[grid](x, y, mean, rstd, self.weight, self.bias, x.numel(), cols, BLOCK=1024)
        return y
