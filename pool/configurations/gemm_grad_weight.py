"""Gradient of a linear layer's weight in bf16: both operands are walked along their rows, with parts added up."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_N": n, "BLOCK_K": k, "BLOCK_T": t, "SPLIT_T": p}, num_warps=w, num_stages=s)
    for n, k, t, p, w, s in itertools.product((64, 128, 256), (64, 128, 256), (32, 64), (1, 4), (4, 8), (2, 3, 4))
    if n * k <= 128 * 256 and (n + k) * t * 2 * s <= 220_000 and not (n * k >= 128 * 256 and w == 4)
]


@triton.autotune(configs=CONFIGS, key=["T", "N", "K"], reset_to_zero=["dw_ptr"])
@triton.jit
def gemm_grad_weight(
    dy_ptr,
    x_ptr,
    dw_ptr,
    T,
    N,
    K,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_T: tl.constexpr,
    SPLIT_T: tl.constexpr,
):
    pid_n = tl.program_id(0)
    pid_k = tl.program_id(1)
    pid_t = tl.program_id(2)
    offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = pid_k * BLOCK_K + tl.arange(0, BLOCK_K)
    offs_t = pid_t * BLOCK_T + tl.arange(0, BLOCK_T)
    dy_ptrs = dy_ptr + offs_t[None, :] * N + offs_n[:, None]
    x_ptrs = x_ptr + offs_t[:, None] * K + offs_k[None, :]
    acc = tl.zeros((BLOCK_N, BLOCK_K), dtype=tl.float32)
    for t in range(0, tl.cdiv(T, BLOCK_T * SPLIT_T)):
        left = T - t * BLOCK_T * SPLIT_T
        dy = tl.load(dy_ptrs, mask=(offs_t[None, :] < left) & (offs_n[:, None] < N), other=0.0)
        x = tl.load(x_ptrs, mask=(offs_t[:, None] < left) & (offs_k[None, :] < K), other=0.0)
        acc += tl.dot(dy, x)
        dy_ptrs += BLOCK_T * SPLIT_T * N
        x_ptrs += BLOCK_T * SPLIT_T * K
    dw_ptrs = dw_ptr + offs_n[:, None] * K + offs_k[None, :]
    mask = (offs_n[:, None] < N) & (offs_k[None, :] < K)
    if SPLIT_T == 1:
        tl.store(dw_ptrs, acc, mask=mask)
    else:
        tl.atomic_add(dw_ptrs, acc, mask=mask)


def inputs(t, n, k):
    torch.manual_seed(0)
    return torch.randn(t, n, device=DEVICE).bfloat16() / 64, torch.randn(t, k, device=DEVICE).bfloat16()


def run(t=8192, n=4096, k=2048):
    dy, x = inputs(t, n, k)
    dw = torch.zeros(n, k, device=DEVICE)

    def grid(meta):
        return triton.cdiv(n, meta["BLOCK_N"]), triton.cdiv(k, meta["BLOCK_K"]), meta["SPLIT_T"]

    gemm_grad_weight[grid](dy, x, dw, t, n, k)
    return dw


def expected(t=8192, n=4096, k=2048):
    dy, x = inputs(t, n, k)
    return dy.float().T @ x.float()
