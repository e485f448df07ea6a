"""Softmax over long rows in two passes, several rows per program."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"ROWS": r, "BLOCK": b}, num_warps=w, num_stages=s)
    for r, b, w, s in itertools.product((1, 2, 4), (256, 512, 1024, 2048, 4096), (2, 4, 8, 16), (1, 2, 4))
    if r * b <= 8192
]


@triton.autotune(configs=CONFIGS, key=["N"])
@triton.jit
def softmax_online(x_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    line = rows[:, None] < M
    top = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        mask = line & (start + cols < N)[None, :]
        x = tl.load(x_ptr + rows[:, None] * N + start + cols[None, :], mask=mask, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x, 1))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(x - higher[:, None]), 1)
        top = higher
    for start in range(0, N, BLOCK):
        mask = line & (start + cols < N)[None, :]
        x = tl.load(x_ptr + rows[:, None] * N + start + cols[None, :], mask=mask, other=0.0).to(tl.float32)
        y = tl.exp(x - top[:, None]) / total[:, None]
        tl.store(out_ptr + rows[:, None] * N + start + cols[None, :], y.to(tl.bfloat16), mask=mask)


def inputs(m, n):
    torch.manual_seed(0)
    return torch.randn(m, n, device=DEVICE).bfloat16()


def run(m=4096, n=32768):
    x = inputs(m, n)
    out = torch.empty_like(x)
    softmax_online[lambda meta: (triton.cdiv(m, meta["ROWS"]),)](x, out, m, n)
    return out


def expected(m=4096, n=32768):
    return torch.softmax(inputs(m, n).float(), 1).bfloat16()
