"""Matrix product in bf16, tiles in grouped order."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": g}, num_warps=w, num_stages=s)
    for m, n, k, g, w, s in itertools.product((64, 128, 256), (64, 128, 256), (32, 64, 128), (1, 8), (4, 8), (3, 4))
    if m * n <= 128 * 256 and (m + n) * k * s * 2 <= 220_000 and not (m * n >= 128 * 256 and w == 4)
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def gemm_bf16(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    stride_am,
    stride_bk,
    stride_cm,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    pid = tl.program_id(0)
    num_m = tl.cdiv(M, BLOCK_M)
    num_n = tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * num_n)
    first_m = group * GROUP_M
    size_m = min(num_m - first_m, GROUP_M)
    pid_m = first_m + (pid % (GROUP_M * num_n)) % size_m
    pid_n = (pid % (GROUP_M * num_n)) // size_m
    rows = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    cols = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    ks = tl.arange(0, BLOCK_K)
    a = a_ptr + rows[:, None] * stride_am + ks[None, :]
    b = b_ptr + ks[:, None] * stride_bk + cols[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = tl.load(a, mask=ks[None, :] < K - k * BLOCK_K, other=0.0)
        right = tl.load(b, mask=ks[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(left, right, acc)
        a += BLOCK_K
        b += BLOCK_K * stride_bk
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c = c_ptr + rows[:, None] * stride_cm + cols[None, :]
    tl.store(c, acc.to(tl.bfloat16), mask=(rows[:, None] < M) & (cols[None, :] < N))


def inputs(m, n, k):
    torch.manual_seed(0)
    return (torch.randn(m, k, device=DEVICE) / 8).bfloat16(), (torch.randn(k, n, device=DEVICE) / 8).bfloat16()


def run(m=4096, n=4096, k=4096):
    a, b = inputs(m, n, k)
    c = torch.empty(m, n, dtype=torch.bfloat16, device=DEVICE)
    gemm_bf16[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)](
        a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0)
    )
    return c


def expected(m=4096, n=4096, k=4096):
    a, b = inputs(m, n, k)
    return (a.float() @ b.float()).bfloat16()
