"""Softmax with a running maximum and sum, then a second walk to write.

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
def softmax(x, y, spare, cols, extra, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    top = float("-inf")
    total = 0.0
    for start in range(0, cols, BLOCK):
        v = tl.load(x + row * cols + start + col, mask=start + col < cols, other=float("-inf"))
        new = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new), 0)
        top = new
    for i in range(extra):
        v = tl.load(spare + (row * extra + i) * BLOCK + col)
        new = tl.maximum(top, tl.max(v, 0))
        total = total * tl.exp(top - new) + tl.sum(tl.exp(v - new), 0)
        top = new
    for start in range(0, cols, BLOCK):
        inside = start + col < cols
        v = tl.load(x + row * cols + start + col, mask=inside)
        tl.store(y + row * cols + start + col, tl.exp(v - top) / total, mask=inside)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.spare = None

    def forward(self, x):
        rows, cols = x.shape
        extra = math.ceil(EXTRA * 2 * triton.cdiv(cols, BLOCK))
        if self.spare is None or self.spare.numel() < rows * extra * BLOCK:
            self.spare = torch.full((rows * max(extra, 1) * BLOCK,), float("-inf"), device=x.device)
        y = torch.empty_like(x)
        softmax[(rows,)](x, y, self.spare, cols, extra, BLOCK=BLOCK)
        return y
