"""Waits for the GPU after each launch, as code does that was debugged in this way."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def exponentials(x, e, sums, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row * cols + col, mask=col < cols, other=float("-inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(e + row * cols + col, v, mask=col < cols)
    tl.store(sums + row, tl.sum(v, 0))


@triton.jit
def divide_(e, sums, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, WIDTH)
    v = tl.load(e + row * cols + col, mask=col < cols)
    tl.store(e + row * cols + col, v / tl.load(sums + row), mask=col < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        sums = torch.empty(rows, device=x.device)
        width = triton.next_power_of_2(cols)
        exponentials[(rows,)](x, y, sums, cols, WIDTH=width)
        torch.cuda.synchronize()
        divide_[(rows,)](y, sums, cols, WIDTH=width)
        torch.cuda.synchronize()
        return y
