"""Matrix product in fp8 with a scale for each 128 of a row's values and for each 128 by 128 of the weights."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config(
        {"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": g}, num_warps=w, num_stages=s
    )
    for m, n, g, w, s in itertools.product((16, 32, 64, 128, 256), (32, 64, 128), (1, 16), (4, 8), (2, 3, 4, 5))
    if (m + n) * 128 * s <= 220_000 and not (m * n <= 16 * 64 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def gemm_fp8_blocks(
    A,
    B,
    C,
    As,
    Bs,
    M,
    N,
    K,
    group_n,
    group_k,
    stride_am,
    stride_bn,
    stride_cm,
    stride_As_m,
    stride_Bs_n,
    BLOCK_SIZE_M: tl.constexpr,
    BLOCK_SIZE_N: tl.constexpr,
    BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    num_pid_m = tl.cdiv(M, BLOCK_SIZE_M)
    num_pid_n = tl.cdiv(N, BLOCK_SIZE_N)
    num_pid_in_group = GROUP_SIZE_M * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP_SIZE_M
    group_size_m = min(num_pid_m - first_pid_m, GROUP_SIZE_M)
    pid_m = first_pid_m + (pid % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_bn = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    a_ptrs = A + (offs_am[:, None] * stride_am + offs_k[None, :])
    b_ptrs = B + (offs_k[:, None] + offs_bn[None, :] * stride_bn)
    As_ptrs = As + offs_am * stride_As_m
    Bs_ptrs = Bs + (offs_bn // group_n) * stride_Bs_n
    accumulator = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        offs_ks = k * BLOCK_SIZE_K // group_k
        a_s = tl.load(As_ptrs + offs_ks)
        b_s = tl.load(Bs_ptrs + offs_ks)
        accumulator += tl.dot(a, b) * a_s[:, None] * b_s[None, :]
        a_ptrs += BLOCK_SIZE_K
        b_ptrs += BLOCK_SIZE_K
    offs_cm = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_cn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    c_ptrs = C + stride_cm * offs_cm[:, None] + offs_cn[None, :]
    tl.store(c_ptrs, accumulator.to(tl.bfloat16), mask=(offs_cm[:, None] < M) & (offs_cn[None, :] < N))


def inputs(m, n, k):
    torch.manual_seed(0)
    a, b = (torch.randn(rows, k, device=DEVICE).to(torch.float8_e4m3fn) for rows in (m, n))
    return a, b, torch.rand(m, k // 128, device=DEVICE), torch.rand(n // 128, k // 128, device=DEVICE)


def run(m=1024, n=7168, k=2048):
    a, b, a_scale, b_scale = inputs(m, n, k)
    c = torch.empty(m, n, dtype=torch.bfloat16, device=DEVICE)
    gemm_fp8_blocks[lambda meta: (triton.cdiv(m, meta["BLOCK_SIZE_M"]) * triton.cdiv(n, meta["BLOCK_SIZE_N"]),)](
        a,
        b,
        c,
        a_scale,
        b_scale,
        m,
        n,
        k,
        128,
        128,
        a.stride(0),
        b.stride(0),
        c.stride(0),
        a_scale.stride(0),
        b_scale.stride(0),
    )
    return c


def expected(m=1024, n=7168, k=2048):
    a, b, a_scale, b_scale = inputs(m, n, k)
    left = a.float() * a_scale.repeat_interleave(128, 1)
    right = b.float() * b_scale.repeat_interleave(128, 0).repeat_interleave(128, 1)
    return (left @ right.T).bfloat16()
