"""The statistics come from torch, the rest is fused."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_shift(x, var, mean, weight, bias, y, cols, eps, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, WIDTH)
    mask = col < cols
    v = tl.load(x + row * cols + col, mask=mask)
    v = (v - tl.load(mean + row)) / tl.sqrt(tl.load(var + row) + eps)
    tl.store(y + row * cols + col, tl.load(weight + col, mask=mask) * v + tl.load(bias + col, mask=mask), mask=mask)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, x):
        rows, cols = x.shape
        var, mean = torch.var_mean(x, dim=-1, correction=0)
        y = torch.empty_like(x)
        scale_shift[(rows,)](
            x, var, mean, self.weight, self.bias, y, cols, 1e-5, WIDTH=triton.next_power_of_2(cols), num_warps=8
        )
        return y
