"""Loads only what a query may see, and writes zeros for the rest."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def causal_softmax_kernel(s_ptr, y_ptr, length, scale, BLOCK: tl.constexpr):
    q = tl.program_id(0)
    head = tl.program_id(1)
    offs = tl.arange(0, BLOCK)
    base = head * length * length + q * length
    seen = offs <= q
    s = tl.load(s_ptr + base + offs, mask=seen, other=float("-inf")) * (scale * 1.4426950408889634)
    p = tl.exp2(s - tl.max(s, axis=0))
    p = p / tl.sum(p, axis=0)
    tl.store(y_ptr + base + offs, p, mask=offs < length)


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, scores):
        heads, length = scores.shape[0], scores.shape[-1]
        out = torch.empty_like(scores)
        causal_softmax_kernel[(length, heads)](
            scores, out, length, self.scale, BLOCK=triton.next_power_of_2(length), num_warps=2
        )
        return out
