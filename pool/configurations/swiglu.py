"""SwiGLU of two halves of a row, by blocks of a flat index with a loop over blocks."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK": b, "EACH": e}, num_warps=w, num_stages=s)
    for b, e, w, s in itertools.product((128, 256, 512, 1024, 2048, 4096), (1, 2, 4), (1, 2, 4, 8), (1, 3))
    if not (b >= 2048 and w == 1)
]


@triton.autotune(configs=CONFIGS, key=["M", "N"])
@triton.jit
def swiglu(x_ptr, out_ptr, M, N, BLOCK: tl.constexpr, EACH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    first = tl.program_id(1) * BLOCK * EACH
    for step in range(EACH):
        cols = first + step * BLOCK + tl.arange(0, BLOCK)
        gate = tl.load(x_ptr + row * 2 * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        up = tl.load(x_ptr + row * 2 * N + N + cols, mask=cols < N, other=0.0).to(tl.float32)
        tl.store(out_ptr + row * N + cols, (gate * tl.sigmoid(gate) * up).to(tl.bfloat16), mask=cols < N)


def inputs(m, n):
    torch.manual_seed(0)
    return torch.randn(m, 2 * n, device=DEVICE).bfloat16()


def run(m=8192, n=8192):
    x = inputs(m, n)
    out = torch.empty(m, n, dtype=torch.bfloat16, device=DEVICE)
    swiglu[lambda meta: (m, triton.cdiv(n, meta["BLOCK"] * meta["EACH"]))](x, out, m, n)
    return out


def expected(m=8192, n=8192):
    gate, up = inputs(m, n).float().chunk(2, 1)
    return (torch.nn.functional.silu(gate) * up).bfloat16()
