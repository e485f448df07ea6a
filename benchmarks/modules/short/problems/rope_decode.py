"""Rotary position embedding of a few tokens."""

import torch
import torch.nn as nn

TOKENS = 64
HEADS = 32


class Model(nn.Module):
    def forward(self, q, cos, sin):
        first, second = q.chunk(2, dim=-1)
        return q * cos.unsqueeze(1) + torch.cat((-second, first), dim=-1) * sin.unsqueeze(1)


def get_inputs():
    return [torch.randn(TOKENS, HEADS, 128), torch.rand(TOKENS, 128), torch.rand(TOKENS, 128)]


def get_init_inputs():
    return []
