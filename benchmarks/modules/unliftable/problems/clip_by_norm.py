"""A gradient scaled down to a largest norm."""

import torch
import torch.nn as nn

ROWS = 8192
COLS = 4096


class Model(nn.Module):
    def __init__(self, limit):
        super().__init__()
        self.limit = limit

    def forward(self, x):
        return x * torch.clamp(self.limit / torch.linalg.vector_norm(x), max=1.0)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [1.0]
