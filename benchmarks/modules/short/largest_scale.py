"""Largest magnitude of a row, then division, in two walks.

Blocks beyond the last one, where `EXTRA` asks for them, come from memory beside the task's, and go there.
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice
BLOCK = 512


@triton.jit(do_not_specialize=["extra"])
def scale_rows(x, y, spare, cols, extra, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    tops = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, cols, BLOCK):
        tops = tl.maximum(tops, tl.abs(tl.load(x + row * cols + start + col, mask=start + col < cols, other=0.0)))
    for i in range(extra):
        tops = tl.maximum(tops, tl.abs(tl.load(spare + (row * extra + i) * BLOCK + col)))
    top = tl.max(tops, 0)
    for start in range(0, cols, BLOCK):
        inside = start + col < cols
        v = tl.load(x + row * cols + start + col, mask=inside)
        tl.store(y + row * cols + start + col, v / top, mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.spare = None

    def forward(self, x):
        rows, cols = x.shape
        extra = math.ceil(EXTRA * 2 * triton.cdiv(cols, BLOCK))
        if self.spare is None or self.spare.numel() < rows * extra * BLOCK:
            self.spare = torch.zeros(rows * max(extra, 1) * BLOCK, device=x.device)
        y = torch.empty_like(x)
        scale_rows[(rows,)](x, y, self.spare, cols, extra, BLOCK=BLOCK)
        return y
