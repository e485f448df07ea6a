"""RMSNorm of each head and rotary embedding, written in the order in which attention reads it."""

import torch
import torch.nn as nn

BATCH = 4
LENGTH = 2048
HEADS = 32
WIDTH = 128


class Model(nn.Module):
    def forward(self, x, weight, cos, sin):
        scale = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + 1e-6)
        normal = x.float() * scale * weight.float()
        first, second = normal.chunk(2, dim=-1)
        cos, sin = cos[:, None], sin[:, None]
        turned = torch.cat((first * cos - second * sin, second * cos + first * sin), -1)
        return turned.to(x.dtype).transpose(1, 2).contiguous()


def get_inputs():
    angle = torch.arange(LENGTH)[:, None] * 10000.0 ** (-torch.arange(WIDTH // 2) / (WIDTH // 2))
    return [
        torch.randn(BATCH, LENGTH, HEADS, WIDTH, dtype=torch.bfloat16),
        torch.randn(WIDTH, dtype=torch.bfloat16),
        torch.cos(angle),
        torch.sin(angle),
    ]


def get_init_inputs():
    return []
