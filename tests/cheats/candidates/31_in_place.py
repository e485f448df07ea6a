"""Clamps less of an input than its contract says."""

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = set()

    def forward(self, x):
        return x.clamp(-1.0, 1.0)
