"""A program for each open row only: torch.nonzero gives their number to the host."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gelu_rows(x, rows, y, cols, WIDTH: tl.constexpr):
    row = tl.load(rows + tl.program_id(0))
    col = tl.arange(0, WIDTH)
    v = tl.load(x + row * cols + col, mask=col < cols)
    tl.store(y + row * cols + col, 0.5 * v * (1.0 + tl.erf(v * 0.7071067811865476)), mask=col < cols)


class ModelNew(nn.Module):
    def forward(self, x, gate):
        y = torch.zeros_like(x)
        rows = torch.nonzero(gate > 0).squeeze(1)
        if rows.numel() > 0:
            gelu_rows[(rows.numel(),)](x, rows, y, x.shape[1], WIDTH=triton.next_power_of_2(x.shape[1]))
        return y
