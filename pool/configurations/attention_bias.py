"""Attention forward in fp16 with a bias for each pair and head, as models of proteins and translators add one."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=w, num_stages=s)
    for m, n, w, s in itertools.product((16, 32, 64, 128), (16, 32, 64, 128), (1, 2, 4, 8), (1, 2, 3, 4))
    if not (m == 128 and w <= 2) and not (m <= 32 and w == 8) and not (m == 64 and w == 1)
]


@triton.autotune(configs=CONFIGS, key=["SEQ_Q", "SEQ_K", "BLOCK_DMODEL"])
@triton.jit
def attention_bias(
    Q,
    K,
    V,
    Bias,
    Out,
    softmax_scale,
    stride_qz,
    stride_qm,
    stride_qh,
    stride_bh,
    stride_bm,
    HEADS,
    SEQ_Q,
    SEQ_K,
    BLOCK_DMODEL: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    start_m = tl.program_id(0)
    off_hb = tl.program_id(1)
    off_b = off_hb // HEADS
    off_h = off_hb % HEADS
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, BLOCK_DMODEL)
    base = off_b.to(tl.int64) * stride_qz + off_h * stride_qh
    q_ptrs = Q + base + offs_m[:, None] * stride_qm + offs_d[None, :]
    k_ptrs = K + base + offs_n[:, None] * stride_qm + offs_d[None, :]
    v_ptrs = V + base + offs_n[:, None] * stride_qm + offs_d[None, :]
    b_ptrs = Bias + off_h * stride_bh + offs_m[:, None] * stride_bm + offs_n[None, :]
    lse_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    acc_o = tl.zeros([BLOCK_M, BLOCK_DMODEL], dtype=tl.float32)
    q = tl.load(q_ptrs, mask=offs_m[:, None] < SEQ_Q, other=0.0)
    for start_n in range(0, SEQ_K, BLOCK_N):
        start_n = tl.multiple_of(start_n, BLOCK_N)
        k = tl.load(k_ptrs + start_n * stride_qm, mask=(start_n + offs_n)[:, None] < SEQ_K, other=0.0)
        qk = tl.zeros([BLOCK_M, BLOCK_N], dtype=tl.float32)
        qk += tl.dot(q, tl.trans(k))
        inside = (offs_m[:, None] < SEQ_Q) & (start_n + offs_n < SEQ_K)[None, :]
        bias = tl.load(b_ptrs + start_n, mask=inside, other=0.0).to(tl.float32)
        qk = qk * softmax_scale + bias
        qk += tl.where((start_n + offs_n)[None, :] < SEQ_K, 0, float("-inf"))
        m_ij = tl.maximum(tl.max(qk, 1), lse_i)
        p = tl.exp(qk - m_ij[:, None])
        l_ij = tl.sum(p, 1)
        acc_o = acc_o * tl.exp(m_i - m_ij)[:, None]
        v = tl.load(v_ptrs + start_n * stride_qm, mask=(start_n + offs_n)[:, None] < SEQ_K, other=0.0)
        acc_o += tl.dot(p.to(v.dtype), v)
        m_i = m_ij
        l_i_new = tl.exp(lse_i - m_ij) + l_ij
        lse_i = m_ij + tl.log(l_i_new)
    acc_o = acc_o * tl.exp(m_i - lse_i)[:, None]
    out_ptrs = Out + base + offs_m[:, None] * stride_qm + offs_d[None, :]
    tl.store(out_ptrs, acc_o.to(tl.float16), mask=offs_m[:, None] < SEQ_Q)


def inputs(batch, heads, n, d):
    torch.manual_seed(0)
    q, k, v = (torch.randn(batch, n, heads, d, device=DEVICE).half() for _ in range(3))
    return q, k, v, torch.randn(heads, n, n, device=DEVICE).half()


def run(batch=256, heads=4, n=512, d=32):
    q, k, v, bias = inputs(batch, heads, n, d)
    out = torch.empty_like(q)
    attention_bias[lambda META: (triton.cdiv(n, META["BLOCK_M"]), batch * heads)](
        q,
        k,
        v,
        bias,
        out,
        d**-0.5,
        q.stride(0),
        q.stride(1),
        q.stride(2),
        bias.stride(0),
        bias.stride(1),
        heads,
        n,
        n,
        BLOCK_DMODEL=d,
    )
    return out


def expected(batch=256, heads=4, n=512, d=32):
    q, k, v, bias = inputs(batch, heads, n, d)
    out = []
    for one in range(batch):  # one at a time: the scores of all would fill the memory
        left, right, values = (x[one].float().transpose(0, 1) for x in (q, k, v))
        p = torch.softmax(left @ right.transpose(1, 2) * d**-0.5 + bias.float(), 2)
        out.append((p @ values).transpose(0, 1))
    return torch.stack(out).half()
