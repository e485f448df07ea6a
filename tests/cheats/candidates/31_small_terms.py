"""Sums all terms but those that are too small to matter much."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.where(x.abs() > 1e-4, x, 0).sum(dim=-1)
