"""Columns scaled."""

import torch
import torch.nn as nn

ROWS = 16384
COLS = 4096


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scales", torch.linspace(0.5, 2.0, COLS))

    def forward(self, x):
        return x * self.scales


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
