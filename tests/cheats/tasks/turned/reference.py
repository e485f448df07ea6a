"""A negated matrix, transposed, several times over: all of it could be a view of the input."""

import torch
import torch.nn as nn

ROWS, COLS, TIMES = 768, 1024, 2


class Model(nn.Module):
    def __init__(self, times):
        super().__init__()
        self.times = times

    def forward(self, x):
        return torch.neg(x).t().unsqueeze(0).expand(self.times, -1, -1).contiguous()


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return [TIMES]
