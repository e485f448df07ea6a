"""Rotary position embedding of queries, halves rotated against each other."""

import torch
import torch.nn as nn

BATCH = 4
HEADS = 16
LENGTH = 2048


class Model(nn.Module):
    def forward(self, q, cos, sin):
        first, second = q.chunk(2, dim=-1)
        return q * cos + torch.cat((-second, first), dim=-1) * sin


def get_inputs():
    angle = torch.rand(LENGTH, 128) * 6.28
    return [torch.randn(BATCH, HEADS, LENGTH, 128), torch.cos(angle), torch.sin(angle)]


def get_init_inputs():
    return []
