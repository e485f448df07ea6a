import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def depthwise3x3(x, w, b, y, total, C, H, W, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    col = at % W
    row = at // W % H
    c = at // (W * H) % C
    acc = tl.load(b + c, mask=inside, other=0.0)
    for dy in tl.static_range(3):
        for dx in tl.static_range(3):
            r = row + dy - 1
            k = col + dx - 1
            ok = inside & (r >= 0) & (r < H) & (k >= 0) & (k < W)
            v = tl.load(x + at + (dy - 1) * W + (dx - 1), mask=ok, other=0.0)
            acc += v * tl.load(w + c * 9 + dy * 3 + dx, mask=inside, other=0.0)
    tl.store(y + at, acc, mask=inside)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, x):
        B, C, H, W = x.shape
        y = torch.empty_like(x)
        n = x.numel()
        depthwise3x3[(triton.cdiv(n, 512),)](x, self.conv.weight, self.conv.bias, y, n, C, H, W, BLOCK=512)
        return y
