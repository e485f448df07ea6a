import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bn_channel(x, w, b, y, batch, channels, plane, eps, BLOCK: tl.constexpr):
    c = tl.program_id(0)
    n = batch * plane
    s = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        s += tl.load(x + (i // plane * channels + c) * plane + i % plane, mask=i < n, other=0.0)
    mean = tl.sum(s, 0) / n
    q = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        v = tl.load(x + (i // plane * channels + c) * plane + i % plane, mask=i < n, other=0.0)
        d = tl.where(i < n, v - mean, 0.0)
        q += d * d
    a = tl.load(w + c) / tl.sqrt(tl.sum(q, 0) / n + eps)
    d0 = tl.load(b + c) - mean * a
    for k in range(0, n, BLOCK):
        i = k + tl.arange(0, BLOCK)
        at = (i // plane * channels + c) * plane + i % plane
        tl.store(y + at, tl.load(x + at, mask=i < n) * a + d0, mask=i < n)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        B, C, H, W = x.shape
        y = torch.empty_like(x)
        bn_channel[(C,)](x, self.weight, self.bias, y, B, C, H * W, 1e-5, BLOCK=4096, num_warps=16)
        return y
