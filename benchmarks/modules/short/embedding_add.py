"""Sum of two gathered rows, block after block.

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
def embed(table, at_positions, tokens, positions, y, spare, sink, cols, extra, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    token = tl.load(tokens + row)
    position = tl.load(positions + row)
    col = tl.arange(0, BLOCK)
    for start in range(0, cols, BLOCK):
        k = start + col
        inside = k < cols
        v = tl.load(table + token * cols + k, mask=inside) + tl.load(at_positions + position * cols + k, mask=inside)
        tl.store(y + row * cols + k, v, mask=inside)
    for i in range(extra):
        k = (row * extra + i) * 2 * BLOCK + col
        tl.store(sink + k, tl.load(spare + k) + tl.load(spare + k + BLOCK))


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.positions = nn.Parameter(torch.randn(512, cols))
        self.spare = None

    def forward(self, table, tokens, positions):
        rows, cols = tokens.numel(), table.shape[1]
        extra = math.ceil(EXTRA * triton.cdiv(cols, BLOCK))
        if self.spare is None or self.spare.shape[1] < rows * extra * 2 * BLOCK:
            self.spare = torch.zeros(2, rows * max(extra, 1) * 2 * BLOCK, device=table.device)
        y = torch.empty(rows, cols, device=table.device)
        embed[(rows,)](
            table, self.positions, tokens, positions, y, self.spare[0], self.spare[1], cols, extra, BLOCK=BLOCK, num_warps=2
        )
        return y
