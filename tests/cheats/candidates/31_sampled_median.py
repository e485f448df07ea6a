"""Takes the median of a part of the list."""

import torch
import torch.nn as nn

SHARE = 4


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.median(x[::SHARE])
