"""Matrix product in fp8 (e4m3) with one scale per operand, the second operand transposed."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": g}, num_warps=w, num_stages=s)
    for m, n, k, g, w, s in itertools.product((64, 128, 256), (64, 128, 256), (64, 128, 256), (4, 16), (4, 8), (3, 4))
    if m * n <= 128 * 256 and (m + n) * k * s <= 220_000 and not (m * n >= 128 * 256 and w == 4)
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def gemm_fp8(
    a_ptr,
    b_ptr,
    c_ptr,
    scale_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BLOCK_M)
    num_n = tl.cdiv(N, BLOCK_N)
    first_m = (pid // (GROUP_M * num_n)) * GROUP_M
    size_m = min(num_m - first_m, GROUP_M)
    pid_m = first_m + (pid % (GROUP_M * num_n)) % size_m
    pid_n = (pid % (GROUP_M * num_n)) // size_m
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    a = a_ptr + (rows % M)[:, None] * K + ks[None, :]
    b = b_ptr + (cols % N)[None, :] * K + ks[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        acc = tl.dot(tl.load(a), tl.load(b), acc)
        a += BLOCK_K
        b += BLOCK_K
    acc *= tl.load(scale_ptr)
    c = c_ptr + rows[:, None] * N + cols[None, :]
    tl.store(c, acc.to(tl.bfloat16), mask=(rows[:, None] < M) & (cols[None, :] < N))


def inputs(m, n, k):
    torch.manual_seed(0)
    a = (torch.randn(m, k, device=DEVICE) / 4).to(torch.float8_e4m3fn)
    b = (torch.randn(n, k, device=DEVICE) / 4).to(torch.float8_e4m3fn)
    return a, b, torch.full((1,), 0.5, device=DEVICE)


def run(m=4096, n=4096, k=4096):
    a, b, scale = inputs(m, n, k)
    c = torch.empty(m, n, dtype=torch.bfloat16, device=DEVICE)
    gemm_fp8[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)](a, b, c, scale, m, n, k)
    return c


def expected(m=4096, n=4096, k=4096):
    a, b, scale = inputs(m, n, k)
    return ((a.float() @ b.float().T) * scale).bfloat16()
