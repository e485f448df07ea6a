"""Eight rows of an int8 matrix per program, block after block.

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
def matvec(w, scale, x, y, spare, outer, inner, extra, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    acc = tl.zeros((ROWS, BLOCK), tl.float32)
    for start in range(0, inner, BLOCK):
        k = start + col
        m = tl.load(w + row[:, None] * inner + k[None, :], mask=(row < outer)[:, None] & (k < inner)[None, :], other=0)
        v = tl.load(x + k, mask=k < inner, other=0.0).to(tl.float32)
        acc += m.to(tl.float32) * v[None, :]
    for i in range(extra):
        m = tl.load(spare + (row[:, None] * extra + i) * BLOCK + col[None, :], mask=(row < outer)[:, None], other=0)
        v = tl.load(x + col, mask=col < inner, other=0.0).to(tl.float32)
        acc += m.to(tl.float32) * v[None, :]
    tl.store(y + row, tl.sum(acc, 1) * tl.load(scale + row, mask=row < outer), mask=row < outer)


class ModelNew(nn.Module):
    def __init__(self, outer, inner):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (outer, inner), dtype=torch.int8))
        self.scale = nn.Parameter(torch.rand(outer) * 0.01 + 0.001)
        self.spare = None

    def forward(self, x):
        outer, inner = self.weight.shape
        extra = math.ceil(EXTRA * triton.cdiv(inner, BLOCK))
        if self.spare is None:
            self.spare = torch.zeros(outer * max(extra, 1) * BLOCK, device=x.device, dtype=torch.int8)
        y = torch.empty(outer, device=x.device)
        matvec[(triton.cdiv(outer, 8),)](
            self.weight, self.scale, x, y, self.spare, outer, inner, extra, ROWS=8, BLOCK=BLOCK, num_warps=4
        )
        return y
