"""Expands, and returns the expanded result made contiguous."""

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, times):
        super().__init__()
        self.times = times

    def forward(self, x):
        return (-x).t().expand(self.times, -1, -1).contiguous()
