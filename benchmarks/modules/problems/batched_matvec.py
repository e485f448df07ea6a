"""Many small products of a matrix and a vector."""

import torch
import torch.nn as nn

BATCH = 256
ROWS = 512
COLS = 512


class Model(nn.Module):
    def forward(self, a, x):
        return torch.bmm(a, x.unsqueeze(-1)).squeeze(-1)


def get_inputs():
    return [torch.randn(BATCH, ROWS, COLS), torch.randn(BATCH, COLS)]


def get_init_inputs():
    return []
