"""Product of a matrix and a vector in fp16."""

import torch
import torch.nn as nn

ROWS = 32768
COLS = 4096


class Model(nn.Module):
    def forward(self, w, x):
        return w @ x


def get_inputs():
    return [torch.randn(ROWS, COLS).half(), torch.randn(COLS).half()]


def get_init_inputs():
    return []
