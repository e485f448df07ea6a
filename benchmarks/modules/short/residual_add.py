"""Addition, a row per program, block after block.

Blocks beyond the last one, where `EXTRA` asks for them, come from memory beside the task's, and go there.
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice
BLOCK = 256


@triton.jit(do_not_specialize=["extra"])
def add(x, residual, y, spare, sink, cols, extra, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    for start in range(0, cols, BLOCK):
        at = row * cols + start + col
        inside = start + col < cols
        tl.store(y + at, tl.load(x + at, mask=inside) + tl.load(residual + at, mask=inside), mask=inside)
    for i in range(extra):
        at = (row * extra + i) * 2 * BLOCK + col
        tl.store(sink + at, tl.load(spare + at) + tl.load(spare + at + BLOCK))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.spare = None

    def forward(self, x, residual):
        rows, cols = x.shape
        extra = math.ceil(EXTRA * triton.cdiv(cols, BLOCK))
        if self.spare is None or self.spare.shape[1] < rows * extra * 2 * BLOCK:
            self.spare = torch.zeros(2, rows * max(extra, 1) * 2 * BLOCK, device=x.device, dtype=x.dtype)
        y = torch.empty_like(x)
        add[(rows,)](x, residual, y, self.spare[0], self.spare[1], cols, extra, BLOCK=BLOCK)
        return y
