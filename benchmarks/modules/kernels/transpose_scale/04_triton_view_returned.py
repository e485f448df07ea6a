"""Transposes tiles within rows of a larger buffer, and returns the part of it that holds the output."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def transpose_into(x, scale, y, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(1) * R + tl.arange(0, R)[None, :]
    c = tl.program_id(0) * C + tl.arange(0, C)[:, None]
    ok = (r < rows) & (c < cols)
    v = tl.load(x + r * cols + c, mask=ok, other=0.0)
    tl.store(y + c * rows + r, v * tl.load(scale + c, mask=c < cols, other=0.0), mask=ok)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x):
        rows, cols = x.shape
        room = torch.empty(((cols + 15) // 16 * 16) * rows, device=x.device, dtype=x.dtype)
        transpose_into[(triton.cdiv(cols, 32), triton.cdiv(rows, 128))](x, self.scale, room, rows, cols, R=128, C=32)
        return room[: rows * cols].view(cols, rows)
