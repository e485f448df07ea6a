"""Finds the middle by its rank: `kthvalue` in place of `median`."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return x.kthvalue((len(x) + 1) // 2).values
