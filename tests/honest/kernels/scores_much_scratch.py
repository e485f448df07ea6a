"""Takes far more memory than its result needs: partial products of eight parts of the inner dimension."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, inner, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, cols) / inner**0.5)

    def forward(self, x):
        scratch = x.new_empty(64, x.shape[0], self.weight.shape[1])
        parts = scratch[:8]
        for part, rows, weight in zip(parts, x.chunk(8, dim=1), self.weight.chunk(8), strict=True):
            torch.mm(rows, weight, out=part)
        return torch.softmax(parts.sum(dim=0), dim=-1)
