"""Attention backward in fp16: gradients of keys and values, a program per block of keys."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=w, num_stages=s)
    for m, n, w, s in itertools.product((16, 32, 64, 128), (32, 64, 128, 256), (2, 4, 8), (1, 2, 3, 4))
    if m <= n and m * n <= 128 * 128 and not (m * n >= 64 * 128 and w == 2) and not (m * n <= 16 * 64 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["N_CTX", "HEAD"])
@triton.jit
def attention_backward(
    q_ptr,
    k_ptr,
    v_ptr,
    do_ptr,
    lse_ptr,
    delta_ptr,
    dk_ptr,
    dv_ptr,
    scale,
    N_CTX,
    HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64)
    keys = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    queries = tl.arange(0, BLOCK_M)
    dims = tl.arange(0, HEAD)
    base = head * N_CTX * HEAD
    there = keys[:, None] < N_CTX
    k = tl.load(k_ptr + base + keys[:, None] * HEAD + dims[None, :], mask=there, other=0.0)
    v = tl.load(v_ptr + base + keys[:, None] * HEAD + dims[None, :], mask=there, other=0.0)
    dk = tl.zeros((BLOCK_N, HEAD), dtype=tl.float32)
    dv = tl.zeros((BLOCK_N, HEAD), dtype=tl.float32)
    for start in range(0, N_CTX, BLOCK_M):
        rows = start + queries
        q = tl.load(q_ptr + base + rows[:, None] * HEAD + dims[None, :])
        do = tl.load(do_ptr + base + rows[:, None] * HEAD + dims[None, :])
        lse = tl.load(lse_ptr + head * N_CTX + rows)
        delta = tl.load(delta_ptr + head * N_CTX + rows)
        p = tl.exp2(tl.dot(k, tl.trans(q)) * (scale * 1.44269504) - lse[None, :])
        dv = tl.dot(p.to(tl.float16), do, dv)
        ds = p * (tl.dot(v, tl.trans(do)) - delta[None, :])
        dk = tl.dot(ds.to(tl.float16), q, dk)
    place = base + keys[:, None] * HEAD + dims[None, :]
    tl.store(dk_ptr + place, (dk * scale).to(tl.float16), mask=there)
    tl.store(dv_ptr + place, dv.to(tl.float16), mask=there)


def inputs(heads, n, d):
    torch.manual_seed(0)
    q, k, v, do = (torch.randn(heads, n, d, device=DEVICE).half() for _ in range(4))
    lse, delta = [], []
    for one in range(heads):  # one head at a time: the scores of all would fill the memory
        scores = q[one].float() @ k[one].float().T * d**-0.5
        lse.append(torch.logsumexp(scores, 1) * 1.44269504)
        delta.append((torch.softmax(scores, 1) @ v[one].float() * do[one].float()).sum(1))
    return q, k, v, do, torch.stack(lse), torch.stack(delta)


def run(heads=32, n=2048, d=64):
    q, k, v, do, lse, delta = inputs(heads, n, d)
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    attention_backward[lambda meta: (triton.cdiv(n, meta["BLOCK_N"]), heads)](
        q, k, v, do, lse, delta, dk, dv, d**-0.5, n, d
    )
    return dk, dv


def expected(heads=32, n=2048, d=64):
    q, k, v, do, _, _ = (t.float() for t in inputs(heads, n, d))
    p = torch.softmax(q @ k.transpose(1, 2) * d**-0.5, 2)
    dp = do @ v.transpose(1, 2)
    ds = p * (dp - (dp * p).sum(2, keepdim=True))
    return (ds.transpose(1, 2) @ q * d**-0.5).half(), (p.transpose(1, 2) @ do).half()
