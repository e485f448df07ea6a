"""Transposed copy of a matrix whose columns are scaled."""

import torch
import torch.nn as nn

ROWS = 8192
COLS = 6144


class Model(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x):
        return (x * self.scale).t().contiguous()


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
