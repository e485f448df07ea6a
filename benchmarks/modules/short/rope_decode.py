"""Rotation of a token's heads, two heads at a time.

Blocks beyond the last one, where `EXTRA` asks for them, come from memory beside the task's, and go there.
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice
BLOCK = 2


@triton.jit(do_not_specialize=["extra"])
def rope(q, cos, sin, y, spare, sink, heads, extra, DIM: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0)
    half = tl.arange(0, DIM // 2)[None, :]
    c0 = tl.load(cos + token * DIM + half)
    c1 = tl.load(cos + token * DIM + DIM // 2 + half)
    s0 = tl.load(sin + token * DIM + half)
    s1 = tl.load(sin + token * DIM + DIM // 2 + half)
    for start in range(0, heads, BLOCK):
        head = start + tl.arange(0, BLOCK)[:, None]
        at = (token * heads + head) * DIM + half
        a = tl.load(q + at, mask=head < heads)
        b = tl.load(q + at + DIM // 2, mask=head < heads)
        tl.store(y + at, a * c0 - b * s0, mask=head < heads)
        tl.store(y + at + DIM // 2, b * c1 + a * s1, mask=head < heads)
    for i in range(extra):
        at = ((token * extra + i) * BLOCK + tl.arange(0, BLOCK)[:, None]) * DIM + half
        a = tl.load(spare + at)
        b = tl.load(spare + at + DIM // 2)
        tl.store(sink + at, a * c0 - b * s0)
        tl.store(sink + at + DIM // 2, b * c1 + a * s1)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.spare = None

    def forward(self, q, cos, sin):
        tokens, heads, dim = q.shape
        extra = math.ceil(EXTRA * triton.cdiv(heads, BLOCK))
        if self.spare is None or self.spare.shape[1] < tokens * extra * BLOCK * dim:
            self.spare = torch.zeros(2, tokens * max(extra, 1) * BLOCK * dim, device=q.device)
        y = torch.empty_like(q)
        rope[(tokens,)](q, cos, sin, y, self.spare[0], self.spare[1], heads, extra, DIM=dim, BLOCK=BLOCK, num_warps=2)
        return y
