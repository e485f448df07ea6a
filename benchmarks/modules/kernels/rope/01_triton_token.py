import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rope_kernel(q, cos, sin, out, length, HALF: tl.constexpr):
    row = tl.program_id(0)
    pos = row % length
    k = tl.arange(0, HALF)
    a = tl.load(q + row * 2 * HALF + k)
    b = tl.load(q + row * 2 * HALF + HALF + k)
    ca = tl.load(cos + pos * 2 * HALF + k)
    cb = tl.load(cos + pos * 2 * HALF + HALF + k)
    sa = tl.load(sin + pos * 2 * HALF + k)
    sb = tl.load(sin + pos * 2 * HALF + HALF + k)
    tl.store(out + row * 2 * HALF + k, a * ca - b * sa)
    tl.store(out + row * 2 * HALF + HALF + k, b * cb + a * sb)


class ModelNew(nn.Module):
    def forward(self, q, cos, sin):
        batch, heads, length, dim = q.shape
        out = torch.empty_like(q)
        rope_kernel[(batch * heads * length,)](q, cos, sin, out, length, HALF=dim // 2, num_warps=1)
        return out
