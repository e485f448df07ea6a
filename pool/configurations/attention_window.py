"""Attention forward in bf16 over a sliding window of earlier keys; several query heads share a head of keys."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=w, num_stages=s)
    for m, n, w, s in itertools.product((16, 32, 64, 128), (16, 32, 64, 128), (1, 2, 4, 8), (1, 2, 3, 4))
    if not (m >= 64 and w == 1) and not (m == 16 and w == 8) and not (m == 128 and w == 2)
]


@triton.jit
def _attend(
    acc, top, total, q, k_block, v_block, rows, start, scale, WINDOW, MASKED: tl.constexpr, BLOCK_N: tl.constexpr
):
    k = tl.load(k_block, boundary_check=(1,), padding_option="zero")
    scores = tl.dot(q, k) * scale
    if MASKED:
        cols = start + tl.arange(0, BLOCK_N)
        inside = (cols[None, :] <= rows[:, None]) & (cols[None, :] > rows[:, None] - WINDOW)
        scores = tl.where(inside, scores, -1.0e6)
    higher = tl.maximum(top, tl.max(scores, 1))
    p = tl.math.exp2(scores - higher[:, None])
    alpha = tl.math.exp2(top - higher)
    v = tl.load(v_block, boundary_check=(0,), padding_option="zero")
    acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    return acc, higher, total * alpha + tl.sum(p, 1)


@triton.autotune(configs=CONFIGS, key=["N_CTX", "HEAD_DIM", "WINDOW"])
@triton.jit
def attention_window(
    Q,
    K,
    V,
    Out,
    sm_scale,
    stride_qh,
    stride_qm,
    stride_kh,
    stride_kn,
    N_CTX,
    WINDOW,
    GROUP: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    start_m = tl.program_id(0)
    head = tl.program_id(1)
    q_base = Q + head.to(tl.int64) * stride_qh
    k_base = K + (head // GROUP).to(tl.int64) * stride_kh
    v_base = V + (head // GROUP).to(tl.int64) * stride_kh
    q_block = tl.make_block_ptr(
        q_base, (N_CTX, HEAD_DIM), (stride_qm, 1), (start_m * BLOCK_M, 0), (BLOCK_M, HEAD_DIM), (1, 0)
    )
    first = tl.maximum(start_m * BLOCK_M - WINDOW + 1, 0) // BLOCK_N * BLOCK_N
    last = tl.minimum((start_m + 1) * BLOCK_M, N_CTX)
    k_block = tl.make_block_ptr(k_base, (HEAD_DIM, N_CTX), (1, stride_kn), (0, first), (HEAD_DIM, BLOCK_N), (0, 1))
    v_block = tl.make_block_ptr(v_base, (N_CTX, HEAD_DIM), (stride_kn, 1), (first, 0), (BLOCK_N, HEAD_DIM), (1, 0))
    rows = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    top = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    total = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    q = tl.load(q_block, boundary_check=(0,), padding_option="zero")
    scale = sm_scale * 1.44269504
    for start in range(first, last, BLOCK_N):
        acc, top, total = _attend(acc, top, total, q, k_block, v_block, rows, start, scale, WINDOW, True, BLOCK_N)
        k_block = tl.advance(k_block, (0, BLOCK_N))
        v_block = tl.advance(v_block, (BLOCK_N, 0))
    out_block = tl.make_block_ptr(
        Out + head.to(tl.int64) * stride_qh,
        (N_CTX, HEAD_DIM),
        (stride_qm, 1),
        (start_m * BLOCK_M, 0),
        (BLOCK_M, HEAD_DIM),
        (1, 0),
    )
    tl.store(out_block, (acc / total[:, None]).to(Out.dtype.element_ty), boundary_check=(0,))


def inputs(heads, kv_heads, n, d):
    torch.manual_seed(0)
    q = torch.randn(heads, n, d, device=DEVICE).bfloat16()
    return q, *(torch.randn(kv_heads, n, d, device=DEVICE).bfloat16() for _ in range(2))


def run(heads=32, kv_heads=8, n=8192, d=64, window=1024):
    q, k, v = inputs(heads, kv_heads, n, d)
    out = torch.empty_like(q)
    attention_window[lambda meta: (triton.cdiv(n, meta["BLOCK_M"]), heads)](
        q, k, v, out, d**-0.5, q.stride(0), q.stride(1), k.stride(0), k.stride(1), n, window, heads // kv_heads, d
    )
    return out


def expected(heads=32, kv_heads=8, n=8192, d=64, window=1024):
    q, k, v = inputs(heads, kv_heads, n, d)
    place = torch.arange(n, device=DEVICE)
    inside = (place[None, :] <= place[:, None]) & (place[None, :] > place[:, None] - window)
    out = []
    for head in range(heads):  # one at a time: the scores of all would fill the memory
        scores = q[head].float() @ k[head * kv_heads // heads].float().T * d**-0.5
        p = torch.softmax(scores.masked_fill(~inside, -torch.inf), 1)
        out.append(p @ v[head * kv_heads // heads].float())
    return torch.stack(out).bfloat16()
