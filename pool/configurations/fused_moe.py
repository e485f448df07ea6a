"""One product of a mixture of experts: each block of tokens with the weights of its expert."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
ALIGNED = 64
"""Tokens of an expert come in blocks of so many, which a tile may not exceed."""
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": g}, num_warps=w, num_stages=s)
    for m, n, k, g, w, s in itertools.product((16, 32, 64), (32, 64, 128, 256), (64, 128), (1, 16), (4, 8), (2, 3, 4))
    if (m + n) * k * s * 2 <= 220_000 and not (m * n <= 32 * 64 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["N", "K", "ROWS"])
@triton.jit
def fused_moe(
    x_ptr,
    w_ptr,
    out_ptr,
    token_ptr,
    expert_ptr,
    N,
    K,
    ROWS,
    TOKENS,
    ALIGNED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
):
    pid = tl.program_id(0)
    num_m = tl.cdiv(ROWS, BLOCK_M)
    num_n = tl.cdiv(N, BLOCK_N)
    first_m = (pid // (GROUP_M * num_n)) * GROUP_M
    size_m = min(num_m - first_m, GROUP_M)
    pid_m = first_m + (pid % (GROUP_M * num_n)) % size_m
    pid_n = (pid % (GROUP_M * num_n)) // size_m
    slots = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    tokens = tl.load(token_ptr + slots)
    there = tokens < TOKENS
    expert = tl.load(expert_ptr + pid_m * BLOCK_M // ALIGNED).to(tl.int64)
    cols = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    ks = tl.arange(0, BLOCK_K)
    x = x_ptr + tokens[:, None] * K + ks[None, :]
    w = w_ptr + expert * N * K + cols[None, :] * K + ks[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        left = tl.load(x, mask=there[:, None] & (ks[None, :] < K - k * BLOCK_K), other=0.0)
        right = tl.load(w, mask=ks[:, None] < K - k * BLOCK_K, other=0.0)
        acc = tl.dot(left, right, acc)
        x += BLOCK_K
        w += BLOCK_K
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    out = out_ptr + slots[:, None] * N + cols[None, :]
    tl.store(out, acc.to(tl.bfloat16), mask=there[:, None] & (cols[None, :] < N))


def inputs(tokens, experts, n, k):
    torch.manual_seed(0)
    x = (torch.randn(tokens, k, device=DEVICE) / 8).bfloat16()
    w = (torch.randn(experts, n, k, device=DEVICE) / 8).bfloat16()
    chosen = torch.arange(tokens * 2) % experts if tokens * 2 < experts else torch.randint(experts, (tokens * 2,))
    slots, owners = [], []
    for expert in range(experts):
        mine = (chosen == expert).nonzero().flatten() // 2
        blocks = -(-len(mine) // ALIGNED)
        slots.append(torch.cat([mine, torch.full((blocks * ALIGNED - len(mine),), tokens)]))
        owners += [expert] * blocks
    return x, w, torch.cat(slots).int().to(DEVICE), torch.tensor(owners, dtype=torch.int32, device=DEVICE)


def run(tokens=512, experts=32, n=2048, k=2048):
    x, w, slots, owners = inputs(tokens, experts, n, k)
    out = torch.zeros(len(slots), n, dtype=torch.bfloat16, device=DEVICE)
    rows = len(slots)
    fused_moe[lambda meta: (triton.cdiv(rows, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)](
        x, w, out, slots, owners, n, k, rows, tokens, ALIGNED
    )
    return out


def expected(tokens=512, experts=32, n=2048, k=2048):
    x, w, slots, owners = inputs(tokens, experts, n, k)
    padded = torch.cat([x, x.new_zeros(1, k)])[slots.long()].view(-1, ALIGNED, k)
    return (padded.float() @ w[owners.long()].float().transpose(1, 2)).bfloat16().view(-1, n)
