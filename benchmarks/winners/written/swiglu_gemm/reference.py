"""The gated half of a feed-forward layer: two products of the same rows, one of them through SiLU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 2048
WIDE = 2048
OUT = 5632


class Model(nn.Module):
    def forward(self, x, gate, up):
        return F.silu(x @ gate.t()) * (x @ up.t())


def get_inputs():
    return [
        torch.randn(ROWS, WIDE, dtype=torch.bfloat16),
        torch.randn(OUT, WIDE, dtype=torch.bfloat16) * 0.05,
        torch.randn(OUT, WIDE, dtype=torch.bfloat16) * 0.05,
    ]


def get_init_inputs():
    return []
