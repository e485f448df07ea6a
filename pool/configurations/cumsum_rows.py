"""Running sums along rows, a program per row and a block of columns at a time."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK": b}, num_warps=w, num_stages=s)
    for b, w, s in itertools.product((64, 128, 256, 512, 1024, 2048, 4096, 8192), (1, 2, 4, 8, 16), (1, 2, 3))
]


@triton.autotune(configs=CONFIGS, key=["N"])
@triton.jit
def cumsum_rows(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    carried = 0.0
    for start in range(0, N, BLOCK):
        there = start + cols < N
        x = tl.load(x_ptr + row * N + start + cols, mask=there, other=0.0)
        tl.store(out_ptr + row * N + start + cols, tl.cumsum(x, 0) + carried, mask=there)
        carried += tl.sum(x, 0)


def inputs(m, n):
    torch.manual_seed(0)
    return torch.rand(m, n, device=DEVICE)


def run(m=8192, n=8192):
    x = inputs(m, n)
    out = torch.empty_like(x)
    cumsum_rows[(m,)](x, out, n)
    return out


def expected(m=8192, n=8192):
    return torch.cumsum(inputs(m, n), 1)
