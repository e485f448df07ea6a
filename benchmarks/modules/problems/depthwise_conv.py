"""Depthwise 3x3 convolution with padding 1 and a bias."""

import torch
import torch.nn as nn

BATCH = 32
CHANNELS = 128
HEIGHT = 112
WIDTH = 112


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return [CHANNELS]
