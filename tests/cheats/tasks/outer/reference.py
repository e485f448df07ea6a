"""Outer product: the inputs are small, and copying the result takes as long as making it."""

import torch
import torch.nn as nn

ROWS, COLS = 1024, 1024


class Model(nn.Module):
    def forward(self, x, y):
        return torch.outer(x, y)


def get_inputs():
    return [torch.randn(ROWS), torch.randn(COLS)]


def get_init_inputs():
    return []
