import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def causal_row(s, y, length, scale, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    query = row % length
    key = tl.arange(0, WIDTH)
    v = tl.load(s + row * length + key, mask=key < length, other=0.0) * scale
    v = tl.where(key <= query, v, float("-inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * length + key, v / tl.sum(v, 0), mask=key < length)


class ModelNew(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, scores):
        heads, length, _ = scores.shape
        y = torch.empty_like(scores)
        causal_row[(heads * length,)](scores, y, length, self.scale, WIDTH=triton.next_power_of_2(length))
        return y
