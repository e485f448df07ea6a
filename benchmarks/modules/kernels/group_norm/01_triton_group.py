import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def group_norm_kernel(x, w, b, y, groups, per_group, plane, eps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    n = per_group * plane
    base = pid.to(tl.int64) * n
    s = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, n, BLOCK):
        at = k + tl.arange(0, BLOCK)
        s += tl.load(x + base + at, mask=at < n, other=0.0)
    mean = tl.sum(s, 0) / n
    q = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, n, BLOCK):
        at = k + tl.arange(0, BLOCK)
        d = tl.where(at < n, tl.load(x + base + at, mask=at < n, other=0.0) - mean, 0.0)
        q += d * d
    rstd = tl.rsqrt(tl.sum(q, 0) / n + eps)
    first = pid % groups * per_group
    for k in range(0, n, BLOCK):
        at = k + tl.arange(0, BLOCK)
        c = first + at // plane
        v = (tl.load(x + base + at, mask=at < n, other=0.0) - mean) * rstd
        v = v * tl.load(w + c, mask=at < n, other=0.0) + tl.load(b + c, mask=at < n, other=0.0)
        tl.store(y + base + at, v, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        B, C, H, W = x.shape
        y = torch.empty_like(x)
        group_norm_kernel[(B * self.groups,)](
            x, self.weight, self.bias, y, self.groups, C // self.groups, H * W, 1e-5, BLOCK=1024
        )
        return y
