"""Works in fp64 throughout and rounds once: slower, and more exact than it has to be."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, inner, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, cols) / inner**0.5)

    def forward(self, x):
        return torch.softmax(x.double() @ self.weight.double(), dim=-1).to(x.dtype)
