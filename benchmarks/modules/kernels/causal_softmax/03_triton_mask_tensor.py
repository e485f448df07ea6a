"""Keeps an additive mask that is made at the first forward."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def masked_softmax(scores, mask, out, length, scale, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    k = tl.arange(0, WIDTH)
    inside = k < length
    v = tl.load(scores + row * length + k, mask=inside, other=-float("inf")) * scale
    v += tl.load(mask + (row % length) * length + k, mask=inside, other=0.0)
    v = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * length + k, v / tl.sum(v, 0), mask=inside)


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.mask = None

    def forward(self, scores):
        heads, length, _ = scores.shape
        if self.mask is None or self.mask.shape[0] != length:
            self.mask = torch.full((length, length), float("-inf"), device=scores.device).triu(1)
        out = torch.empty_like(scores)
        masked_softmax[(heads * length,)](
            scores, self.mask, out, length, self.scale, WIDTH=triton.next_power_of_2(length), num_warps=4
        )
        return out
