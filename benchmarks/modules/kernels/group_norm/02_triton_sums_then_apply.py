"""Means of planes and squares about them go to scratch memory; the second kernel joins those of its group."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def plane_statistics(x, means, squares, plane, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + p * plane + at, mask=at < plane, other=0.0)
    mean = tl.sum(v, 0) / plane
    off = tl.where(at < plane, v - mean, 0.0)
    tl.store(means + p, mean)
    tl.store(squares + p, tl.sum(off * off, 0))


@triton.jit
def apply_planes(x, y, means, squares, w, b, channels, per_group, plane, eps, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    c = p % channels
    first = p - c % per_group
    g = tl.arange(0, GROUP)
    of_planes = tl.load(means + first + g, mask=g < per_group, other=0.0)
    mean = tl.sum(of_planes, 0) / per_group
    off = tl.where(g < per_group, of_planes - mean, 0.0)
    inside = tl.sum(tl.load(squares + first + g, mask=g < per_group, other=0.0), 0) / plane
    scale = tl.rsqrt((inside + tl.sum(off * off, 0)) / per_group + eps) * tl.load(w + c)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + p * plane + at, mask=at < plane)
    tl.store(y + p * plane + at, (v - mean) * scale + tl.load(b + c), mask=at < plane)


class ModelNew(nn.Module):
    def __init__(self, channels, groups):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        B, C, H, W = x.shape
        plane = H * W
        scratch = torch.empty(2 * B * C, device=x.device)
        means, squares = scratch[: B * C], scratch[B * C :]
        block = triton.next_power_of_2(plane)
        plane_statistics[(B * C,)](x, means, squares, plane, BLOCK=block, num_warps=4)
        y = torch.empty_like(x)
        per_group = C // self.groups
        apply_planes[(B * C,)](
            x, y, means, squares, self.weight, self.bias, C, per_group, plane, 1e-5,
            GROUP=triton.next_power_of_2(per_group), BLOCK=block, num_warps=4,
        )
        return y
