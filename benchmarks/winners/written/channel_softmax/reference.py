"""Bias and softmax over the channels of a batch of maps, as in segmentation and gating."""

import torch
import torch.nn as nn

BATCH = 8
CHANNELS = 150
PIXELS = 16384


class Model(nn.Module):
    def forward(self, x, bias):
        return torch.softmax(x + bias[:, None], dim=1)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, PIXELS), torch.randn(CHANNELS)]


def get_init_inputs():
    return []
