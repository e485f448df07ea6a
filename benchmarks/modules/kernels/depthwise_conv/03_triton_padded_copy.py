"""Pads by torch, so that the kernel needs no comparison but that at its end."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def conv_padded(xp, w, b, y, C, H, W, WIDTH: tl.constexpr):
    plane = tl.program_id(1)
    row = tl.program_id(0)
    c = plane % C
    col = tl.arange(0, WIDTH)
    inside = col < W
    base = xp + plane * (H + 2) * (W + 2) + row * (W + 2)
    acc = tl.zeros((WIDTH,), tl.float32) + tl.load(b + c)
    for dy in range(3):
        for dx in range(3):
            v = tl.load(base + dy * (W + 2) + dx + col, mask=inside, other=0.0)
            acc += v * tl.load(w + c * 9 + dy * 3 + dx)
    tl.store(y + plane * H * W + row * W + col, acc, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x):
        B, C, H, W = x.shape
        padded = F.pad(x, (1, 1, 1, 1))
        y = torch.empty_like(x)
        conv_padded[(H, B * C)](
            padded, self.conv.weight, self.conv.bias, y, C, H, W, WIDTH=triton.next_power_of_2(W), num_warps=1
        )
        return y
