"""Running sums of a few rows, as top-p sampling needs them."""

import torch
import torch.nn as nn

ROWS = 16
COLS = 4096


class Model(nn.Module):
    def forward(self, x):
        return torch.cumsum(x, dim=-1)


def get_inputs():
    return [torch.rand(ROWS, COLS)]


def get_init_inputs():
    return []
