"""A whole module through torch.compile, made at the first call."""

import torch
import torch.nn as nn


class Sums(nn.Module):
    def forward(self, x):
        return x.view(x.shape[0], -1, 16).sum(dim=-1).sum(dim=-1)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.sums = torch.compile(Sums(), dynamic=False)

    def forward(self, x):
        return self.sums(x)
