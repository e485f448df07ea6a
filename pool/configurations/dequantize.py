"""Weights of eight bits to bf16 by a scale per block of 128 by 128."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GROUP = 128
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=w, num_stages=s)
    for m, n, w, s in itertools.product((1, 4, 16, 64), (64, 128, 256, 512, 1024), (1, 2, 4, 8), (1, 2))
    if m * n <= 16384 and not (m * n >= 8192 and w == 1)
]


@triton.autotune(configs=CONFIGS, key=["M", "N"])
@triton.jit
def dequantize(x_ptr, scale_ptr, out_ptr, M, N, GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask, other=0)
    place = (rows // GROUP)[:, None] * tl.cdiv(N, GROUP) + (cols // GROUP)[None, :]
    scale = tl.load(scale_ptr + place, mask=mask, other=0.0)
    tl.store(out_ptr + rows[:, None] * N + cols[None, :], (x.to(tl.float32) * scale).to(tl.bfloat16), mask=mask)


def inputs(m, n):
    torch.manual_seed(0)
    x = torch.randint(-127, 128, (m, n), dtype=torch.int8, device=DEVICE)
    return x, torch.rand(m // GROUP, n // GROUP, device=DEVICE)


def run(m=8192, n=8192):
    x, scale = inputs(m, n)
    out = torch.empty(m, n, dtype=torch.bfloat16, device=DEVICE)
    dequantize[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]))](
        x, scale, out, m, n, GROUP
    )
    return out


def expected(m=8192, n=8192):
    x, scale = inputs(m, n)
    return (x.float() * scale.repeat_interleave(GROUP, 0).repeat_interleave(GROUP, 1)).bfloat16()
