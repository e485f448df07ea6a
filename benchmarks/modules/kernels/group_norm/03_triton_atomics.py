import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_up(x, stats, n, BLOCK: tl.constexpr):
    g = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + g * n + at, mask=at < n, other=0.0)
    tl.atomic_add(stats + 2 * g, tl.sum(v))


@triton.jit
def add_up_squares(x, stats, n, BLOCK: tl.constexpr):
    g = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + g * n + at, mask=at < n) - tl.load(stats + 2 * g) / n
    tl.atomic_add(stats + 2 * g + 1, tl.sum(tl.where(at < n, v * v, 0.0)))


@triton.jit
def normalise(x, stats, w, b, y, n, groups, per_group, plane, eps, BLOCK: tl.constexpr):
    g = tl.program_id(1)
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = at < n
    mean = tl.load(stats + 2 * g) / n
    rstd = tl.rsqrt(tl.load(stats + 2 * g + 1) / n + eps)
    c = g % groups * per_group + at // plane
    v = (tl.load(x + g * n + at, mask=ok) - mean) * rstd
    tl.store(y + g * n + at, v * tl.load(w + c, mask=ok) + tl.load(b + c, mask=ok), mask=ok)


class ModelNew(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        B, C, H, W = x.shape
        per_group = C // self.groups
        n = per_group * H * W
        stats = torch.zeros((B * self.groups, 2), device=x.device)
        grid = (triton.cdiv(n, 4096), B * self.groups)
        add_up[grid](x, stats, n, BLOCK=4096, num_warps=8)
        add_up_squares[grid](x, stats, n, BLOCK=4096, num_warps=8)
        y = torch.empty_like(x)
        normalise[grid](x, stats, self.weight, self.bias, y, n, self.groups, per_group, H * W, 1e-5, BLOCK=4096, num_warps=8)
        return y
