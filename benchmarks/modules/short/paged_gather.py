"""Gather of pages, a sequence and a quarter of a page's tokens per program, page after page.

Blocks beyond the last one, where `EXTRA` asks for them, come from memory beside the task's, and go there.
"""

import math

import torch
import torch.nn as nn
import triton
import triton.language as tl

EXTRA = 0.0  # planted: share of the work that is done twice
BLOCK = 4


@triton.jit(do_not_specialize=["extra"])
def gather(cache, table, y, spare, sink, pages, extra, SIZE: tl.constexpr, DIM: tl.constexpr, BLOCK: tl.constexpr):
    sequence = tl.program_id(1)
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    at = token * DIM + tl.arange(0, DIM)[None, :]
    for p in range(pages):
        page = tl.load(table + sequence * pages + p)
        v = tl.load(cache + page * SIZE * DIM + at, mask=token < SIZE)
        tl.store(y + (sequence * pages + p) * SIZE * DIM + at, v, mask=token < SIZE)
    for i in range(extra):
        page = tl.load(table + sequence * pages + i) * 0 + sequence * extra + i
        v = tl.load(spare + page * SIZE * DIM + at, mask=token < SIZE)
        tl.store(sink + page * SIZE * DIM + at, v, mask=token < SIZE)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.spare = None

    def forward(self, cache, table):
        _, size, dim = cache.shape
        sequences, pages = table.shape
        extra = math.ceil(EXTRA * pages)
        if self.spare is None or self.spare.shape[1] < sequences * extra * size * dim:
            self.spare = torch.zeros(2, sequences * max(extra, 1) * size * dim, device=cache.device)
        y = torch.empty(sequences, pages * size, dim, device=cache.device)
        gather[(triton.cdiv(size, BLOCK), sequences)](
            cache, table, y, self.spare[0], self.spare[1], pages, extra, SIZE=size, DIM=dim, BLOCK=BLOCK, num_warps=2
        )
        return y
