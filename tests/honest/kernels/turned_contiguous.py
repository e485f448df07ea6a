"""Transposes into a tensor of its own before it repeats."""

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, times):
        super().__init__()
        self.times = times

    def forward(self, x):
        turned = x.t().contiguous().neg_()
        return turned.repeat(self.times, 1, 1)
