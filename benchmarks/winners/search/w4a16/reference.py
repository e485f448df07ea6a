"""Weights of four bits, two neighbouring columns a byte (the even one in the lower half), with a scale and a zero point
for each row and group of columns."""

import torch
import torch.nn as nn

ROWS = 1
WIDE = 4096
OUT = 4096
GROUP = 128


class Model(nn.Module):
    def forward(self, x, packed, scale, zero):
        levels = torch.stack((packed & 15, packed >> 4), -1).reshape(packed.shape[0], -1, GROUP)
        weight = (levels.to(scale.dtype) - zero.to(scale.dtype)[..., None]) * scale[..., None]
        return x @ weight.reshape(packed.shape[0], -1).t()


def get_inputs():
    return [
        torch.randn(ROWS, WIDE, dtype=torch.bfloat16),
        torch.randint(0, 256, (OUT, WIDE // 2), dtype=torch.uint8),
        (torch.rand(OUT, WIDE // GROUP) * 0.01 + 0.005).to(torch.bfloat16),
        torch.randint(4, 12, (OUT, WIDE // GROUP), dtype=torch.uint8),
    ]


def get_init_inputs():
    return []
