"""Reads the transposed view by its strides, a row of the output per program."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scaled_copy(x, scale, y, n, stride_row, stride_col, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    factor = tl.load(scale + row)
    k = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + row * stride_row + k * stride_col, mask=k < n)
    tl.store(y + row * n + k, v * factor, mask=k < n)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x):
        view = x.t()
        m, n = view.shape
        y = torch.empty((m, n), device=x.device, dtype=x.dtype)
        scaled_copy[(m, triton.cdiv(n, 1024))](view, self.scale, y, n, view.stride(0), view.stride(1), BLOCK=1024)
        return y
