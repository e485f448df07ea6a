"""Gate and up projection of a gated feed-forward layer in one kernel: two products in bf16 of one input, and SiLU."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config(
        {"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "BLOCK_SIZE_K": k, "GROUP_SIZE_M": 8}, num_warps=w, num_stages=s
    )
    for m, n, k, w, s in itertools.product((16, 32, 64, 128, 256), (32, 64, 128), (32, 64, 128), (4, 8), (2, 3, 4))
    if (m + 2 * n) * k * 2 * s <= 220_000 and m * n <= 128 * 128 and not (m * n <= 32 * 64 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def gemm_glu(
    x_ptr,
    w_gate_ptr,
    w_up_ptr,
    y_ptr,
    M,
    N,
    K,
    stride_xm,
    stride_wk,
    stride_ym,
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
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_m = (pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)) % M
    offs_n = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    offs_k = tl.arange(0, BLOCK_SIZE_K)
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_k[None, :]
    gate_ptrs = w_gate_ptr + offs_k[:, None] * stride_wk + offs_n[None, :]
    up_ptrs = w_up_ptr + offs_k[:, None] * stride_wk + offs_n[None, :]
    gate = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_SIZE_K)):
        x = tl.load(x_ptrs, mask=offs_k[None, :] < K - k * BLOCK_SIZE_K, other=0.0)
        w_gate = tl.load(gate_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        w_up = tl.load(up_ptrs, mask=offs_k[:, None] < K - k * BLOCK_SIZE_K, other=0.0)
        gate = tl.dot(x, w_gate, gate)
        up = tl.dot(x, w_up, up)
        x_ptrs += BLOCK_SIZE_K
        gate_ptrs += BLOCK_SIZE_K * stride_wk
        up_ptrs += BLOCK_SIZE_K * stride_wk
    y = gate * tl.sigmoid(gate) * up
    offs_ym = pid_m * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M)
    offs_yn = pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)
    y_ptrs = y_ptr + stride_ym * offs_ym[:, None] + offs_yn[None, :]
    tl.store(y_ptrs, y.to(tl.bfloat16), mask=(offs_ym[:, None] < M) & (offs_yn[None, :] < N))


def inputs(m, n, k):
    torch.manual_seed(0)
    x = torch.randn(m, k, device=DEVICE).bfloat16()
    return x, *((torch.randn(k, n, device=DEVICE) * k**-0.5).bfloat16() for _ in range(2))


def run(m=4096, n=8192, k=2048):
    x, gate, up = inputs(m, n, k)
    y = torch.empty(m, n, dtype=torch.bfloat16, device=DEVICE)
    gemm_glu[lambda meta: (triton.cdiv(m, meta["BLOCK_SIZE_M"]) * triton.cdiv(n, meta["BLOCK_SIZE_N"]),)](
        x, gate, up, y, m, n, k, x.stride(0), gate.stride(0), y.stride(0)
    )
    return y


def expected(m=4096, n=8192, k=2048):
    x, gate, up = (t.float() for t in inputs(m, n, k))
    return (torch.nn.functional.silu(x @ gate) * (x @ up)).bfloat16()
