"""Matrix product in int8 with a scale per row and per column."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=w, num_stages=s)
    for m, n, k, w, s in itertools.product((32, 64, 128, 256), (64, 128, 256), (64, 128), (4, 8), (2, 3, 4))
    if m * n <= 128 * 256 and (m + n) * k * s <= 220_000 and not (m * n >= 128 * 256 and w == 4)
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def gemm_int8(
    a_ptr,
    b_ptr,
    c_ptr,
    row_scale_ptr,
    col_scale_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    a = a_ptr + (rows % M)[:, None] * K + ks[None, :]
    b = b_ptr + (cols % N)[None, :] * K + ks[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(a), tl.load(b), acc, out_dtype=tl.int32)
        a += BLOCK_K
        b += BLOCK_K
    row_scale = tl.load(row_scale_ptr + rows, mask=rows < M, other=0.0)
    col_scale = tl.load(col_scale_ptr + cols, mask=cols < N, other=0.0)
    out = acc.to(tl.float32) * row_scale[:, None] * col_scale[None, :]
    c = c_ptr + rows[:, None] * N + cols[None, :]
    tl.store(c, out.to(tl.bfloat16), mask=(rows[:, None] < M) & (cols[None, :] < N))


def inputs(m, n, k):
    torch.manual_seed(0)
    a = torch.randint(-64, 64, (m, k), dtype=torch.int8, device=DEVICE)
    b = torch.randint(-64, 64, (n, k), dtype=torch.int8, device=DEVICE)
    return a, b, torch.rand(m, device=DEVICE) / 1024, torch.rand(n, device=DEVICE) / 1024


def run(m=4096, n=4096, k=4096):
    a, b, rows, cols = inputs(m, n, k)
    c = torch.empty(m, n, dtype=torch.bfloat16, device=DEVICE)
    gemm_int8[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]))](
        a, b, c, rows, cols, m, n, k
    )
    return c


def expected(m=4096, n=4096, k=4096):
    a, b, rows, cols = inputs(m, n, k)
    return (a.float() @ b.float().T * rows[:, None] * cols[None, :]).bfloat16()
