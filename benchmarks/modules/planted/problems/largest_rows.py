"""Rows divided by their largest magnitude."""

import torch
import torch.nn as nn

ROWS = 131072
COLS = 512


class Model(nn.Module):
    def forward(self, x):
        return x / x.abs().amax(-1, keepdim=True).clamp(min=1e-6)


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
