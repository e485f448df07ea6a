"""A block of positions per program, over all heads, so that cosines and sines are read once."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rope_all_heads(q, cos, sin, out, planes, length, HALF: tl.constexpr, BLOCK: tl.constexpr):
    pos = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    k = tl.arange(0, HALF)[None, :]
    ok = pos < length
    at = pos * 2 * HALF + k
    c0 = tl.load(cos + at, mask=ok)
    c1 = tl.load(cos + at + HALF, mask=ok)
    s0 = tl.load(sin + at, mask=ok)
    s1 = tl.load(sin + at + HALF, mask=ok)
    for p in range(planes):
        base = p * length * 2 * HALF
        a = tl.load(q + base + at, mask=ok)
        b = tl.load(q + base + at + HALF, mask=ok)
        tl.store(out + base + at, a * c0 - b * s0, mask=ok)
        tl.store(out + base + at + HALF, b * c1 + a * s1, mask=ok)


class ModelNew(nn.Module):
    def forward(self, q, cos, sin):
        B, H, L, D = q.shape
        out = torch.empty_like(q)
        rope_all_heads[(triton.cdiv(L, 4),)](q, cos, sin, out, B * H, L, HALF=D // 2, BLOCK=4, num_warps=2)
        return out
