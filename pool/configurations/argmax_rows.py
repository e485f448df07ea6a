"""Largest value of each row and its place, a row per program, in blocks."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK": b}, num_warps=w, num_stages=s)
    for b, w, s in itertools.product((128, 256, 512, 1024, 2048, 4096, 8192), (1, 2, 4, 8, 16), (1, 2, 3))
]


@triton.autotune(configs=CONFIGS, key=["N"])
@triton.jit
def argmax_rows(x_ptr, value_ptr, index_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), float("-inf"), dtype=tl.float32)
    where = tl.zeros((BLOCK,), dtype=tl.int32)
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + row * N + start + cols, mask=start + cols < N, other=float("-inf"))
        better = x > best
        best = tl.where(better, x, best)
        where = tl.where(better, start + cols, where)
    top, lane = tl.max(best, 0, return_indices=True)
    tl.store(value_ptr + row, top)
    tl.store(index_ptr + row, tl.sum(tl.where(cols == lane, where, 0)))


def inputs(m, n):
    torch.manual_seed(0)
    return torch.randn(m, n, device=DEVICE)


def run(m=4096, n=32000):
    x = inputs(m, n)
    value, index = torch.empty(m, device=DEVICE), torch.empty(m, dtype=torch.int32, device=DEVICE)
    argmax_rows[(m,)](x, value, index, n)
    return value


def expected(m=4096, n=32000):
    return inputs(m, n).max(1).values
