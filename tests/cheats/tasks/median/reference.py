"""Median of a long list: drawing it takes longer than a judge likes to wait before each call."""

import torch
import torch.nn as nn

LENGTH = 1_000_000


class Model(nn.Module):
    def forward(self, x):
        return torch.median(x)


def get_inputs():
    return [torch.randn(LENGTH)]


def get_init_inputs():
    return []
