"""Writes to a buffer of its own that it keeps, and returns it."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.result = None

    def forward(self, x):
        if self.result is None or self.result.shape != x.shape:
            self.result = torch.empty_like(x)
        return torch.softmax(x, dim=-1, out=self.result)
