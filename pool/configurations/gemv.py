"""A matrix times a vector in fp16: rows in tiles, a loop along each."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=w, num_stages=s)
    for m, n, w, s in itertools.product((1, 2, 4, 8, 16, 32), (128, 256, 512, 1024, 2048), (1, 2, 4, 8), (1, 2, 4))
    if 256 <= m * n <= 8192 and not (m * n >= 4096 and w == 1)
]


@triton.autotune(configs=CONFIGS, key=["M", "N"])
@triton.jit
def gemv(a_ptr, x_ptr, y_ptr, M, N, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = (tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)).to(tl.int64)
    cols = tl.arange(0, BLOCK_N)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, N, BLOCK_N):
        there = start + cols < N
        mask = (rows < M)[:, None] & there[None, :]
        a = tl.load(a_ptr + rows[:, None] * N + start + cols[None, :], mask=mask, other=0.0).to(tl.float32)
        acc += a * tl.load(x_ptr + start + cols, mask=there, other=0.0).to(tl.float32)[None, :]
    tl.store(y_ptr + rows, tl.sum(acc, 1), mask=rows < M)


def inputs(m, n):
    torch.manual_seed(0)
    return (torch.randn(m, n, device=DEVICE) / 8).half(), torch.randn(n, device=DEVICE).half()


def run(m=16384, n=8192):
    a, x = inputs(m, n)
    y = torch.empty(m, device=DEVICE)
    gemv[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]),)](a, x, y, m, n)
    return y


def expected(m=16384, n=8192):
    a, x = inputs(m, n)
    return a.float() @ x.float()
