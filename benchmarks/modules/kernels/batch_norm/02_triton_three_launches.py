"""Sums of planes, then scale and shift of channels, then the output."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_planes(x, sums, plane, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    a = tl.zeros((BLOCK,), tl.float32)
    q = tl.zeros((BLOCK,), tl.float32)
    for k in range(0, plane, BLOCK):
        at = k + tl.arange(0, BLOCK)
        v = tl.load(x + p * plane + at, mask=at < plane, other=0.0)
        a += v
        q += v * v
    tl.store(sums + 2 * p, tl.sum(a, 0))
    tl.store(sums + 2 * p + 1, tl.sum(q, 0))


@triton.jit
def finish_channels(sums, w, b, affine, batch, channels, plane, eps, BATCH: tl.constexpr):
    c = tl.program_id(0)
    i = tl.arange(0, BATCH)
    p = i * channels + c
    n = batch * plane
    mean = tl.sum(tl.load(sums + 2 * p, mask=i < batch, other=0.0), 0) / n
    square = tl.sum(tl.load(sums + 2 * p + 1, mask=i < batch, other=0.0), 0) / n
    a = tl.load(w + c) * tl.rsqrt(square - mean * mean + eps)
    tl.store(affine + 2 * c, a)
    tl.store(affine + 2 * c + 1, tl.load(b + c) - mean * a)


@triton.jit
def apply_affine(x, affine, y, channels, plane, BLOCK: tl.constexpr):
    p = tl.program_id(0)
    a = tl.load(affine + p % channels * 2)
    d = tl.load(affine + p % channels * 2 + 1)
    for k in range(0, plane, BLOCK):
        at = k + tl.arange(0, BLOCK)
        v = tl.load(x + p * plane + at, mask=at < plane)
        tl.store(y + p * plane + at, v * a + d, mask=at < plane)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        B, C, H, W = x.shape
        sums = torch.empty(B * C * 2, device=x.device)
        affine = torch.empty(C * 2, device=x.device)
        y = torch.empty_like(x)
        sum_planes[(B * C,)](x, sums, H * W, BLOCK=1024)
        finish_channels[(C,)](
            sums, self.weight, self.bias, affine, B, C, H * W, 1e-5, BATCH=triton.next_power_of_2(B), num_warps=1
        )
        apply_affine[(B * C,)](x, affine, y, C, H * W, BLOCK=1024)
        return y
