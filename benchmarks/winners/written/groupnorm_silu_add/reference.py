"""Group normalisation, SiLU and a residual, the block that diffusion models repeat."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH = 8
CHANNELS = 320
SIZE = 64
GROUPS = 32


class Model(nn.Module):
    def forward(self, x, residual, weight, bias):
        return F.silu(F.group_norm(x, GROUPS, weight, bias, 1e-5)) + residual


def get_inputs():
    shape = (BATCH, CHANNELS, SIZE, SIZE)
    return [
        torch.randn(shape, dtype=torch.bfloat16),
        torch.randn(shape, dtype=torch.bfloat16),
        torch.randn(CHANNELS, dtype=torch.bfloat16),
        torch.randn(CHANNELS, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return []
