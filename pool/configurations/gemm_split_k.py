"""Matrix product in fp16 with the inner dimension split between programs, which add up atomically."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config(
        {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "SPLIT_K": p},
        num_warps=w,
        num_stages=s,
        pre_hook=lambda args: args["c_ptr"].zero_(),
    )
    for m, n, k, p, w, s in itertools.product((16, 32, 64), (64, 128), (64, 128), (1, 2, 4, 8, 16), (4, 8), (3, 5))
    if not (m * n <= 16 * 64 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def gemm_split_k(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    pid_k = tl.program_id(2)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = pid_k * BLOCK_K + tl.arange(0, BLOCK_K)
    a = a_ptr + (rows % M)[:, None] * K + ks[None, :]
    b = b_ptr + ks[:, None] * N + (cols % N)[None, :]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K * SPLIT_K)):
        left = K - k * BLOCK_K * SPLIT_K
        acc = tl.dot(
            tl.load(a, mask=ks[None, :] < left, other=0.0), tl.load(b, mask=ks[:, None] < left, other=0.0), acc
        )
        a += BLOCK_K * SPLIT_K
        b += BLOCK_K * SPLIT_K * N
    c = c_ptr + rows[:, None] * N + cols[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    if SPLIT_K == 1:
        tl.store(c, acc, mask=mask)
    else:
        tl.atomic_add(c, acc, mask=mask)


def inputs(m, n, k):
    torch.manual_seed(0)
    return (torch.randn(m, k, device=DEVICE) / 8).half(), (torch.randn(k, n, device=DEVICE) / 8).half()


def run(m=32, n=4096, k=8192):
    a, b = inputs(m, n, k)
    c = torch.zeros(m, n, device=DEVICE)
    gemm_split_k[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]), meta["SPLIT_K"])](
        a, b, c, m, n, k
    )
    return c


def expected(m=32, n=4096, k=8192):
    a, b = inputs(m, n, k)
    return a.float() @ b.float()
