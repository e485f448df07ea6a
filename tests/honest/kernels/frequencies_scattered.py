"""Adds a one at each number's place, in place of `bincount`."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds

    def forward(self, x):
        return torch.zeros(self.kinds, dtype=torch.int64, device=x.device).scatter_add_(0, x, torch.ones_like(x))
