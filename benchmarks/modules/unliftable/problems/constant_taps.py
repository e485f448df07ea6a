"""A filter of seven taps along the rows."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 16384
COLS = 4096


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("taps", torch.tensor([[[1.0, 6.0, 15.0, 20.0, 15.0, 6.0, 1.0]]]) / 64)

    def forward(self, x):
        return F.conv1d(x.unsqueeze(1), self.taps, padding=3).squeeze(1)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
