"""Running sum with a carry, block after block.

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
def scan(x, y, spare, sink, cols, extra, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    carry = 0.0
    for start in range(0, cols, BLOCK):
        v = tl.load(x + row * cols + start + col, mask=start + col < cols, other=0.0)
        tl.store(y + row * cols + start + col, tl.cumsum(v, 0) + carry, mask=start + col < cols)
        carry += tl.sum(v, 0)
    for i in range(extra):
        k = (row * extra + i) * BLOCK + col
        v = tl.load(spare + k)
        tl.store(sink + k, tl.cumsum(v, 0) + carry)
        carry += tl.sum(v, 0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.spare = None

    def forward(self, x):
        rows, cols = x.shape
        extra = math.ceil(EXTRA * triton.cdiv(cols, BLOCK))
        if self.spare is None or self.spare.shape[1] < rows * extra * BLOCK:
            self.spare = torch.zeros(2, rows * max(extra, 1) * BLOCK, device=x.device)
        y = torch.empty_like(x)
        scan[(rows,)](x, y, self.spare[0], self.spare[1], cols, extra, BLOCK=BLOCK, num_warps=1)
        return y
