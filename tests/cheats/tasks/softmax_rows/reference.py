"""Softmax of each row, where copying the result takes about as long as making it."""

import torch
import torch.nn as nn

ROWS, COLS = 1024, 1024


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
