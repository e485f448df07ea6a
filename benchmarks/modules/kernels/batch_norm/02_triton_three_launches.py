"""Means of planes and squares about them, then mean and scale of channels, then the output."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def plane_statistics(x, stats, plane, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    a = tl.zeros((BLOCK,), tl.float32)
    q = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, plane, BLOCK):
        at = k + tl.arange(0, BLOCK)
        a += tl.load(x + p * plane + at, mask=at < plane, other=0.0)
    mean = tl.sum(a, 0) / plane
    for k in range(0, plane, BLOCK):
        at = k + tl.arange(0, BLOCK)
        off = tl.where(at < plane, tl.load(x + p * plane + at, mask=at < plane) - mean, 0.0)
        q += off * off
    tl.store(stats + 2 * p, mean)
    tl.store(stats + 2 * p + 1, tl.sum(q, 0))


@triton.jit
def finish_channels(stats, w, factors, batch, channels, plane, eps, BATCH: tl.constexpr):
    c = tl.program_id(0)
    i = tl.arange(0, BATCH)
    p = i * channels + c
    means = tl.load(stats + 2 * p, mask=i < batch, other=0.0)
    mean = tl.sum(means, 0) / batch
    off = tl.where(i < batch, means - mean, 0.0)
    inside = tl.sum(tl.load(stats + 2 * p + 1, mask=i < batch, other=0.0), 0) / plane
    tl.store(factors + 2 * c, mean)
    tl.store(factors + 2 * c + 1, tl.load(w + c) * tl.rsqrt((inside + tl.sum(off * off, 0)) / batch + eps))


@triton.jit
def apply_factors(x, factors, b, y, channels, plane, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    c = p % channels
    mean = tl.load(factors + 2 * c)
    scale = tl.load(factors + 2 * c + 1)
    shift = tl.load(b + c)
    for k in range(0, plane, BLOCK):
        at = k + tl.arange(0, BLOCK)
        v = tl.load(x + p * plane + at, mask=at < plane)
        tl.store(y + p * plane + at, (v - mean) * scale + shift, mask=at < plane)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        B, C, H, W = x.shape
        stats = torch.empty(B * C * 2, device=x.device)
        factors = torch.empty(C * 2, device=x.device)
        y = torch.empty_like(x)
        plane_statistics[(B * C,)](x, stats, H * W, BLOCK=1024)
        finish_channels[(C,)](
            stats, self.weight, factors, B, C, H * W, 1e-5, BATCH=triton.next_power_of_2(B), num_warps=1
        )
        apply_factors[(B * C,)](x, factors, self.bias, y, C, H * W, BLOCK=1024)
        return y
