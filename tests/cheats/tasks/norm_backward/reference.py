"""RMS normalisation with a learned weight."""

import torch
import torch.nn as nn

ROWS = 1024
COLS = 4096
EPS = 1e-6


class Model(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.randn(size))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS, EPS]
