"""Sums of columns in fp32, rows split between programs that add up atomically."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "EACH": e}, num_warps=w, num_stages=s)
    for m, n, e, w, s in itertools.product((4, 16, 64), (32, 128, 512), (64, 256, 1024), (1, 4, 8), (1, 3))
    if m * n <= 8192 and m <= e
]


@triton.autotune(configs=CONFIGS, key=["M", "N"], reset_to_zero=["out_ptr"])
@triton.jit
def column_sum(x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, EACH: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    lines = tl.arange(0, BLOCK_M)
    first = tl.program_id(1) * EACH
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(first, min(first + EACH, M), BLOCK_M):
        rows = start + lines
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        acc += tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask, other=0.0)
    tl.atomic_add(out_ptr + cols, tl.sum(acc, 0), mask=cols < N)


def inputs(m, n):
    torch.manual_seed(0)
    return torch.randn(m, n, device=DEVICE)


def run(m=16384, n=4096):
    x = inputs(m, n)
    out = torch.zeros(n, device=DEVICE)
    column_sum[lambda meta: (triton.cdiv(n, meta["BLOCK_N"]), triton.cdiv(m, meta["EACH"]))](x, out, m, n)
    return out


def expected(m=16384, n=4096):
    return inputs(m, n).double().sum(0).float()
