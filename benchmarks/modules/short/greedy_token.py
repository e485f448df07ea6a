"""Argmax of a row, block after block.

Blocks beyond the last one, where `EXTRA` asks for them, come from memory beside the task's, and go there.
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice
BLOCK = 1024


@triton.jit(do_not_specialize=["extra"])
def argmax_rows(x, y, spare, cols, extra, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    tops = tl.full((BLOCK,), float("-inf"), tl.float32)
    where = tl.zeros((BLOCK,), tl.int32)
    for start in range(0, cols, BLOCK):
        v = tl.load(x + row * cols + start + col, mask=start + col < cols, other=float("-inf"))
        where = tl.where(v > tops, start + col, where)
        tops = tl.maximum(tops, v)
    for i in range(extra):
        v = tl.load(spare + (row * extra + i) * BLOCK + col)
        where = tl.where(v > tops, cols, where)
        tops = tl.maximum(tops, v)
    best = tl.max(tops, 0)
    first = tl.min(tl.where(tops == best, where, 2147483647), 0)
    tl.store(y + row, first.to(tl.int64))


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.spare = None

    def forward(self, logits):
        rows, cols = logits.shape
        extra = math.ceil(EXTRA * triton.cdiv(cols, BLOCK))
        if self.spare is None or self.spare.numel() < rows * extra * BLOCK:
            self.spare = torch.full((rows * max(extra, 1) * BLOCK,), float("-inf"), device=logits.device)
        y = torch.empty(rows, device=logits.device, dtype=torch.int64)
        argmax_rows[(rows,)](logits, y, self.spare, cols, extra, BLOCK=BLOCK)
        return y
