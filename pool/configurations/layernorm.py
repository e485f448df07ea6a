"""Layer normalisation in fp16, a program per row that loops over the row twice."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK": b}, num_warps=w, num_stages=s)
    for b, w, s in itertools.product((64, 128, 256, 512, 1024, 2048, 4096, 8192), (1, 2, 4, 8, 16), (1, 2, 4))
]


@triton.autotune(configs=CONFIGS, key=["N"])
@triton.jit
def layernorm(x_ptr, w_ptr, b_ptr, out_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        x = tl.load(x_ptr + row * N + start + cols, mask=start + cols < N, other=0.0).to(tl.float32)
        total += x
        squares += x * x
    mean = tl.sum(total, 0) / N
    rstd = tl.rsqrt(tl.sum(squares, 0) / N - mean * mean + eps)
    for start in range(0, N, BLOCK):
        there = start + cols < N
        x = tl.load(x_ptr + row * N + start + cols, mask=there, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + start + cols, mask=there, other=0.0)
        b = tl.load(b_ptr + start + cols, mask=there, other=0.0)
        tl.store(out_ptr + row * N + start + cols, ((x - mean) * rstd * w + b).to(tl.float16), mask=there)


def inputs(rows, n):
    torch.manual_seed(0)
    return torch.randn(rows, n, device=DEVICE).half(), torch.rand(n, device=DEVICE), torch.rand(n, device=DEVICE)


def run(rows=8192, n=4096):
    x, w, b = inputs(rows, n)
    out = torch.empty_like(x)
    layernorm[(rows,)](x, w, b, out, n, 1e-5)
    return out


def expected(rows=8192, n=4096):
    x, w, b = inputs(rows, n)
    return torch.nn.functional.layer_norm(x.float(), (n,), w, b, 1e-5).half()
