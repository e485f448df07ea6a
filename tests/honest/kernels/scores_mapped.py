"""Is written for one row and mapped over all of them by `torch.func.vmap`."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, inner, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, cols) / inner**0.5)

    def forward(self, x):
        return torch.func.vmap(lambda row: torch.softmax(row @ self.weight, dim=-1))(x)
