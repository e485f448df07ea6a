"""SwiGLU of a few tokens."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 16
WIDTH = 8192


class Model(nn.Module):
    def forward(self, x):
        gate, up = x.chunk(2, dim=-1)
        return F.silu(gate) * up


def get_inputs():
    return [torch.randn(TOKENS, 2 * WIDTH)]


def get_init_inputs():
    return []
