"""Gradients of layer normalisation's weight and bias: column sums in tiles, rows split between programs."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "PARTS": p}, num_warps=w, num_stages=s)
    for m, n, p, w, s in itertools.product((8, 32, 64), (32, 64, 128, 256), (4, 16, 64), (2, 4, 8), (1, 3))
    if m * n <= 64 * 128
]


@triton.autotune(configs=CONFIGS, key=["M", "N"], reset_to_zero=["dw_ptr", "db_ptr"])
@triton.jit
def layernorm_backward(
    dy_ptr,
    x_ptr,
    mean_ptr,
    rstd_ptr,
    dw_ptr,
    db_ptr,
    M,
    N,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    PARTS: tl.constexpr,
):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    lines = tl.arange(0, BLOCK_M)
    dw = tl.zeros((BLOCK_N,), dtype=tl.float32)
    db = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for start in range(tl.program_id(1) * BLOCK_M, M, BLOCK_M * PARTS):
        rows = start + lines
        mask = (rows[:, None] < M) & (cols[None, :] < N)
        place = rows[:, None] * N + cols[None, :]
        dy = tl.load(dy_ptr + place, mask=mask, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + rows, mask=rows < M, other=0.0)
        rstd = tl.load(rstd_ptr + rows, mask=rows < M, other=0.0)
        dw += tl.sum(dy * (x - mean[:, None]) * rstd[:, None], 0)
        db += tl.sum(dy, 0)
    tl.atomic_add(dw_ptr + cols, dw, mask=cols < N)
    tl.atomic_add(db_ptr + cols, db, mask=cols < N)


def inputs(m, n):
    torch.manual_seed(0)
    dy, x = (torch.randn(m, n, device=DEVICE).half() for _ in range(2))
    return dy, x, torch.randn(m, device=DEVICE) / 8, torch.rand(m, device=DEVICE) + 0.5


def run(m=8192, n=4096):
    dy, x, mean, rstd = inputs(m, n)
    dw, db = torch.zeros(n, device=DEVICE), torch.zeros(n, device=DEVICE)
    layernorm_backward[lambda meta: (triton.cdiv(n, meta["BLOCK_N"]), meta["PARTS"])](dy, x, mean, rstd, dw, db, m, n)
    return dw, db


def expected(m=8192, n=4096):
    dy, x, mean, rstd = (t.float() for t in inputs(m, n))
    return (dy * (x - mean[:, None]) * rstd[:, None]).sum(0), dy.sum(0)
