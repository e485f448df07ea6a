"""Causal depthwise convolution over time of width four, with SiLU."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_T": t, "BLOCK_D": d}, num_warps=w, num_stages=s)
    for t, d, w, s in itertools.product((1, 4, 16, 64, 128), (32, 64, 128, 256, 512), (1, 2, 4, 8), (1, 3))
    if 128 <= t * d <= 16384 and not (t * d >= 8192 and w == 1)
]


@triton.autotune(configs=CONFIGS, key=["T", "D"])
@triton.jit
def conv1d_causal(x_ptr, w_ptr, b_ptr, out_ptr, T, D, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr):
    batch = tl.program_id(2).to(tl.int64)
    times = tl.program_id(0) * BLOCK_T + tl.arange(0, BLOCK_T)
    dims = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    inside = dims < D
    acc = tl.zeros((BLOCK_T, BLOCK_D), dtype=tl.float32)
    acc += tl.load(b_ptr + dims, mask=inside, other=0.0)[None, :]
    for tap in tl.static_range(4):
        when = times + tap - 3
        mask = (when >= 0)[:, None] & (when < T)[:, None] & inside[None, :]
        x = tl.load(x_ptr + batch * T * D + when[:, None] * D + dims[None, :], mask=mask, other=0.0)
        w = tl.load(w_ptr + tap * D + dims, mask=inside, other=0.0)
        acc += x.to(tl.float32) * w[None, :]
    out = acc * tl.sigmoid(acc)
    mask = (times < T)[:, None] & inside[None, :]
    tl.store(out_ptr + batch * T * D + times[:, None] * D + dims[None, :], out.to(tl.bfloat16), mask=mask)


def inputs(batch, t, d):
    torch.manual_seed(0)
    x = torch.randn(batch, t, d, device=DEVICE).bfloat16()
    return x, torch.randn(4, d, device=DEVICE), torch.randn(d, device=DEVICE)


def run(batch=8, t=4096, d=2048):
    x, w, b = inputs(batch, t, d)
    out = torch.empty_like(x)
    conv1d_causal[lambda meta: (triton.cdiv(t, meta["BLOCK_T"]), triton.cdiv(d, meta["BLOCK_D"]), batch)](
        x, w, b, out, t, d
    )
    return out


def expected(batch=8, t=4096, d=2048):
    x, w, b = inputs(batch, t, d)
    padded = torch.nn.functional.pad(x.float().transpose(1, 2), (3, 0))
    y = torch.nn.functional.conv1d(padded, w.t()[:, None], b, groups=d)
    return torch.nn.functional.silu(y).transpose(1, 2).bfloat16()
