"""SwiGLU of gate and input."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 131072
COLS = 512


class Model(nn.Module):
    def forward(self, x, gate):
        return F.silu(gate) * x


def get_inputs():
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
