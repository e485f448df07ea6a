"""Elements under a mask go through tanh, the others stay."""

import torch
import torch.nn as nn

ROWS = 4096
COLS = 4096


class Model(nn.Module):
    def forward(self, x, mask):
        return torch.where(mask, torch.tanh(x), x)


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.rand(ROWS, COLS) < 0.3]


def get_init_inputs():
    return []
