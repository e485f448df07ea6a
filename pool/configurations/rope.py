"""Rotary embedding of queries, halves rotated, several heads per program."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_T": t, "BLOCK_H": h}, num_warps=w, num_stages=s)
    for t, h, w, s in itertools.product((1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32), (1, 2, 4, 8), (1, 2))
    if 2 <= t * h <= 128 and not (t * h >= 64 and w == 1)
]


@triton.autotune(configs=CONFIGS, key=["T", "HEADS"])
@triton.jit
def rope(x_ptr, cos_ptr, sin_ptr, out_ptr, T, HEADS, HALF: tl.constexpr, BLOCK_T: tl.constexpr, BLOCK_H: tl.constexpr):
    times = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    heads = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    dims = tl.arange(0, HALF)
    cos = tl.load(cos_ptr + times[:, None] * HALF + dims[None, :], mask=times[:, None] < T, other=0.0)[:, None, :]
    sin = tl.load(sin_ptr + times[:, None] * HALF + dims[None, :], mask=times[:, None] < T, other=0.0)[:, None, :]
    place = ((times[:, None] * HEADS + heads[None, :]) * 2 * HALF)[:, :, None] + dims[None, None, :]
    mask = ((times < T)[:, None] & (heads < HEADS)[None, :])[:, :, None]
    a = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(x_ptr + place + HALF, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + place, (a * cos - b * sin).to(tl.bfloat16), mask=mask)
    tl.store(out_ptr + place + HALF, (b * cos + a * sin).to(tl.bfloat16), mask=mask)


def inputs(t, heads, d):
    torch.manual_seed(0)
    angles = torch.rand(t, d // 2, device=DEVICE) * 6.28
    return torch.randn(t, heads, d, device=DEVICE).bfloat16(), angles.cos(), angles.sin()


def run(t=16384, heads=32, d=128):
    x, cos, sin = inputs(t, heads, d)
    out = torch.empty_like(x)
    rope[lambda meta: (triton.cdiv(t, meta["BLOCK_T"]), triton.cdiv(heads, meta["BLOCK_H"]))](
        x, cos, sin, out, t, heads, d // 2
    )
    return out


def expected(t=16384, heads=32, d=128):
    x, cos, sin = inputs(t, heads, d)
    a, b = x.float().chunk(2, 2)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), 2).bfloat16()
