"""Batched matrix product in fp16 of many small matrices."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=w, num_stages=s)
    for m, n, k, w, s in itertools.product((32, 64, 128), (32, 64, 128), (16, 32, 64), (2, 4, 8), (1, 2, 3))
    if (m + n) * k * s * 2 <= 220_000 and not (m * n >= 128 * 128 and w == 2) and not (m * n <= 32 * 64 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def batched_gemm(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    batch = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    a = a_ptr + batch * M * K + rows[:, None] * K + ks[None, :]
    b = b_ptr + batch * K * N + ks[:, None] * N + cols[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        left = tl.load(a, mask=(rows[:, None] < M) & (ks[None, :] < K - k), other=0.0)
        right = tl.load(b, mask=(ks[:, None] < K - k) & (cols[None, :] < N), other=0.0)
        acc += tl.dot(left, right)
        a += BLOCK_K
        b += BLOCK_K * N
    c = c_ptr + batch * M * N + rows[:, None] * N + cols[None, :]
    tl.store(c, acc.to(tl.float16), mask=(rows[:, None] < M) & (cols[None, :] < N))


def inputs(batch, m, n, k):
    torch.manual_seed(0)
    a = (torch.randn(batch, m, k, device=DEVICE) / 8).half()
    return a, (torch.randn(batch, k, n, device=DEVICE) / 8).half()


def run(batch=256, m=256, n=256, k=128):
    a, b = inputs(batch, m, n, k)
    c = torch.empty(batch, m, n, dtype=torch.float16, device=DEVICE)
    batched_gemm[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]), batch)](
        a, b, c, m, n, k
    )
    return c


def expected(batch=256, m=256, n=256, k=128):
    a, b = inputs(batch, m, n, k)
    return (a.float() @ b.float()).half()
