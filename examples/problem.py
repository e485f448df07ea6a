"""Gated swish, the middle of many feed-forward layers: swish(x) * gate."""

import torch
import torch.nn as nn

ROWS = 512
COLS = 4096


class Model(nn.Module):
    """The reference that candidates are checked and timed against."""

    def forward(self, x, gate):
        """Return x * sigmoid(x) * gate."""
        return x * torch.sigmoid(x) * gate


def get_inputs():
    """Return one set of random inputs."""
    return [torch.randn(ROWS, COLS), torch.randn(ROWS, COLS)]


def get_init_inputs():
    """Return the arguments of Model()."""
    return []
