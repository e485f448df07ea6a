"""Causal attention forward in bf16 over sequences of different lengths laid end to end, with grouped heads of keys."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=w, num_stages=s)
    for m, n, w, s in itertools.product((32, 64, 128), (16, 32, 64, 128), (2, 4, 8), (1, 2, 3, 4))
    if not (m == 128 and w == 2)
]


@triton.autotune(configs=CONFIGS, key=["GROUP", "HEAD"])
@triton.jit
def attention_varlen(
    Q,
    K,
    V,
    Out,
    B_Start_Loc,
    B_Seqlen,
    sm_scale,
    stride_qt,
    stride_kt,
    GROUP: tl.constexpr,
    HEAD: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    cur_batch = tl.program_id(0)
    cur_head = tl.program_id(1)
    start_m = tl.program_id(2)
    cur_kv_head = cur_head // GROUP
    seq_len = tl.load(B_Seqlen + cur_batch)
    start = tl.load(B_Start_Loc + cur_batch)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD)
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    off_q = (start + offs_m[:, None]) * stride_qt + cur_head * HEAD + offs_d[None, :]
    off_k = offs_n[None, :] * stride_kt + cur_kv_head * HEAD + offs_d[:, None]
    off_v = offs_n[:, None] * stride_kt + cur_kv_head * HEAD + offs_d[None, :]
    q = tl.load(Q + off_q, mask=offs_m[:, None] < seq_len, other=0.0)
    k_ptrs = K + off_k
    v_ptrs = V + off_v
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD], dtype=tl.float32)
    block_mask = tl.where(start_m * BLOCK_M < seq_len, 1, 0)
    end_n = tl.minimum((start_m + 1) * BLOCK_M, seq_len)
    for start_n in range(0, block_mask * end_n, BLOCK_N):
        k = tl.load(k_ptrs + (start + start_n) * stride_kt, mask=(start_n + offs_n[None, :]) < end_n, other=0.0)
        qk = tl.dot(q, k) * (sm_scale * 1.44269504)
        qk = tl.where(offs_m[:, None] >= (start_n + offs_n[None, :]), qk, -1.0e8)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp2(qk - m_ij[:, None])
        alpha = tl.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(v_ptrs + (start + start_n) * stride_kt, mask=(start_n + offs_n[:, None]) < end_n, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc)
        m_i = m_ij
    acc = acc / l_i[:, None]
    tl.store(Out + off_q, acc.to(tl.bfloat16), mask=offs_m[:, None] < seq_len)


def inputs(longest, count, heads, kv_heads, d):
    torch.manual_seed(0)
    lengths = torch.tensor([longest * (1 + i % 4) // 4 for i in range(count)], dtype=torch.int32)
    starts = torch.cat([torch.zeros(1, dtype=torch.int32), lengths.cumsum(0)[:-1].int()])
    tokens = int(lengths.sum())
    q = torch.randn(tokens, heads, d, device=DEVICE).bfloat16()
    k, v = (torch.randn(tokens, kv_heads, d, device=DEVICE).bfloat16() for _ in range(2))
    return q, k, v, starts.to(DEVICE), lengths.to(DEVICE)


def run(longest=2048, count=8, heads=32, kv_heads=8, d=128):
    q, k, v, starts, lengths = inputs(longest, count, heads, kv_heads, d)
    out = torch.empty_like(q)
    attention_varlen[lambda meta: (count, heads, triton.cdiv(longest, meta["BLOCK_M"]))](
        q, k, v, out, starts, lengths, d**-0.5, q.stride(0), k.stride(0), heads // kv_heads, d
    )
    return out


def expected(longest=2048, count=8, heads=32, kv_heads=8, d=128):
    q, k, v, starts, lengths = inputs(longest, count, heads, kv_heads, d)
    out = []
    for first, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        rows = slice(first, first + length)
        a, b, c = (x[rows].float().transpose(0, 1) for x in (q, k, v))
        b, c = (x.repeat_interleave(heads // kv_heads, 0) for x in (b, c))
        out.append(torch.nn.functional.scaled_dot_product_attention(a, b, c, is_causal=True).transpose(0, 1))
    return torch.cat(out).bfloat16()
