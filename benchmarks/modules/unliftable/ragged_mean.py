"""Launches as many programs as the longest sequence of this batch needs."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_tokens(x, lengths, y, padded, DIM: tl.constexpr, TOKENS: tl.constexpr):
    b = tl.program_id(1)
    length = tl.load(lengths + b).to(tl.int32)
    token = tl.program_id(0) * TOKENS + tl.arange(0, TOKENS)
    k = tl.arange(0, DIM)
    at = (b * padded + token)[:, None] * DIM + k[None, :]
    v = tl.load(x + at, mask=(token < length)[:, None], other=0.0)
    tl.atomic_add(y + b * DIM + k, tl.sum(v, axis=0) / length)


class ModelNew(nn.Module):
    def forward(self, x, lengths):
        batch, padded, dim = x.shape
        longest = int(lengths.max())
        y = torch.zeros(batch, dim, device=x.device)
        add_tokens[(triton.cdiv(longest, 32), batch)](x, lengths, y, padded, DIM=dim, TOKENS=32)
        return y
