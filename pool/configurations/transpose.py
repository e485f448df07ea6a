"""Transposition of a matrix in tiles."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=w)
    for m, n, w in itertools.product((8, 16, 32, 64, 128, 256), (8, 16, 32, 64, 128, 256), (1, 2, 4, 8))
    if 256 <= m * n <= 16384 and not (m * n >= 8192 and w == 1)
]


@triton.autotune(configs=CONFIGS, key=["M", "N"])
@triton.jit
def transpose(x_ptr, out_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask)
    tl.store(out_ptr + cols[:, None] * M + rows[None, :], tl.trans(x), mask=tl.trans(mask))


def inputs(m, n, dtype):
    torch.manual_seed(0)
    return torch.randn(m, n, device=DEVICE).to(getattr(torch, dtype))


def run(m=8192, n=8192, dtype="float32"):
    x = inputs(m, n, dtype)
    out = torch.empty(n, m, dtype=x.dtype, device=DEVICE)
    transpose[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]))](x, out, m, n)
    return out


def expected(m=8192, n=8192, dtype="float32"):
    return inputs(m, n, dtype).T.contiguous()
