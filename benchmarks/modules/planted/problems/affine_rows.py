"""A factor and a summand for each column."""

import torch
import torch.nn as nn

ROWS = 131072
COLS = 512


class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, x):
        return x * self.weight + self.bias


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
