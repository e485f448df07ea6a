"""Causal attention forward in bf16, with the logarithm of each row's sum for the backward pass."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=w, num_stages=s)
    for m, n, w, s in itertools.product((32, 64, 128, 256), (16, 32, 64, 128), (2, 4, 8), (1, 2, 3, 4))
    if n <= m and not (m >= 128 and w == 2) and not (m == 32 and w == 8) and not (m == 256 and w == 4)
]


@triton.autotune(configs=CONFIGS, key=["N_CTX", "HEAD"])
@triton.jit
def attention_forward(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    lse_ptr,
    scale,
    N_CTX,
    HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    block = tl.num_programs(0) - 1 - tl.program_id(0)
    rows = block * BLOCK_M + tl.arange(0, BLOCK_M)
    keys = tl.arange(0, BLOCK_N)
    dims = tl.arange(0, HEAD)
    base = head * N_CTX * HEAD
    q = tl.load(q_ptr + base + rows[:, None] * HEAD + dims[None, :], mask=rows[:, None] < N_CTX, other=0.0)
    k = k_ptr + base + keys[None, :] * HEAD + dims[:, None]
    v = v_ptr + base + keys[:, None] * HEAD + dims[None, :]
    top = tl.full((BLOCK_M,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD), dtype=tl.float32)
    scale *= 1.44269504
    for start in range(0, block * BLOCK_M, BLOCK_N):
        scores = tl.dot(q, tl.load(k + start * HEAD)) * scale
        higher = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - higher[:, None])
        fade = tl.exp2(top - higher)
        total = total * fade + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.bfloat16), tl.load(v + start * HEAD), acc * fade[:, None])
        top = higher
    for start in range(block * BLOCK_M, (block + 1) * BLOCK_M, BLOCK_N):
        there = start + keys < N_CTX
        scores = tl.dot(q, tl.load(k + start * HEAD, mask=there[None, :], other=0.0)) * scale
        scores = tl.where(rows[:, None] >= start + keys[None, :], scores, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp2(scores - higher[:, None])
        fade = tl.exp2(top - higher)
        total = total * fade + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.bfloat16), tl.load(v + start * HEAD, mask=there[:, None], other=0.0), acc * fade[:, None])
        top = higher
    tl.store(lse_ptr + head * N_CTX + rows, top + tl.log2(total), mask=rows < N_CTX)
    out = out_ptr + base + rows[:, None] * HEAD + dims[None, :]
    tl.store(out, (acc / total[:, None]).to(tl.bfloat16), mask=rows[:, None] < N_CTX)


def inputs(heads, n, d):
    torch.manual_seed(0)
    return tuple(torch.randn(heads, n, d, device=DEVICE).bfloat16() for _ in range(3))


def run(heads=64, n=2048, d=128):
    q, k, v = inputs(heads, n, d)
    out = torch.empty_like(q)
    lse = torch.empty(heads, n, device=DEVICE)
    attention_forward[lambda meta: (triton.cdiv(n, meta["BLOCK_M"]), heads)](q, k, v, out, lse, d**-0.5, n, d)
    return out


def expected(heads=64, n=2048, d=128):
    q, k, v = (t.float() for t in inputs(heads, n, d))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).bfloat16()
