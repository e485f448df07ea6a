"""Addition of two small bf16 matrices."""

import torch
import torch.nn as nn

ROWS = 64
COLS = 4096


class Model(nn.Module):
    def forward(self, x, residual):
        return x + residual


def get_inputs():
    return [torch.randn(ROWS, COLS).to(torch.bfloat16), torch.randn(ROWS, COLS).to(torch.bfloat16)]


def get_init_inputs():
    return []
