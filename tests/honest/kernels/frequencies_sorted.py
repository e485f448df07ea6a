"""Counts by sorting, and where each number begins."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds

    def forward(self, x):
        edges = torch.arange(self.kinds + 1, device=x.device)
        return torch.searchsorted(torch.sort(x).values, edges).diff()
