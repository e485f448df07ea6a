"""SwiGLU, a quarter of a row per program, block after block.

Blocks beyond the last one, where `EXTRA` asks for them, come from memory beside the task's, and go there.
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice
BLOCK = 128


@triton.jit(do_not_specialize=["extra"])
def swiglu(x, y, spare, sink, width, slice_blocks, extra, BLOCK: tl.constexpr):
    row = tl.program_id(1)
    first = tl.program_id(0) * slice_blocks * BLOCK
    col = tl.arange(0, BLOCK)
    for i in range(slice_blocks):
        k = first + i * BLOCK + col
        g = tl.load(x + row * 2 * width + k, mask=k < width)
        u = tl.load(x + row * 2 * width + width + k, mask=k < width)
        tl.store(y + row * width + k, g * tl.sigmoid(g) * u, mask=k < width)
    program = row * tl.num_programs(0) + tl.program_id(0)
    for i in range(extra):
        k = (program * extra + i) * 2 * BLOCK + col
        g = tl.load(spare + k)
        u = tl.load(spare + k + BLOCK)
        tl.store(sink + k, g * tl.sigmoid(g) * u)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.spare = None

    def forward(self, x):
        tokens, width = x.shape[0], x.shape[1] // 2
        slice_blocks = triton.cdiv(triton.cdiv(width, BLOCK), 4)
        extra = math.ceil(EXTRA * slice_blocks)
        if self.spare is None or self.spare.shape[1] < tokens * 4 * extra * 2 * BLOCK:
            self.spare = torch.zeros(2, tokens * 4 * max(extra, 1) * 2 * BLOCK, device=x.device)
        y = torch.empty(tokens, width, device=x.device)
        swiglu[(4, tokens)](x, y, self.spare[0], self.spare[1], width, slice_blocks, extra, BLOCK=BLOCK, num_warps=1)
        return y
