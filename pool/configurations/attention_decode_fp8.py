"""Attention of one new token per sequence, heads in groups, over a cache in fp8 that is widened on the way."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_N": n, "SPLITS": p}, num_warps=w, num_stages=s)
    for n, p, w, s in itertools.product((16, 32, 64, 128, 256), (1, 2, 4, 8, 16), (1, 2, 4, 8), (1, 2, 3))
    if not (n >= 128 and w == 1) and not (n == 16 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["LENGTH", "HEAD"])
@triton.jit
def attention_decode_fp8(
    q_ptr,
    k_ptr,
    v_ptr,
    k_scale_ptr,
    v_scale_ptr,
    out_ptr,
    lse_ptr,
    sm_scale,
    LENGTH,
    KV_HEADS,
    MOST,
    GROUP: tl.constexpr,
    HEAD: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
):
    batch = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    pair = (batch * KV_HEADS + kv_head).to(tl.int64)
    rows = tl.arange(0, 16)
    dims = tl.arange(0, HEAD)
    slots = tl.arange(0, BLOCK_N)
    mask_g = rows < GROUP
    q = tl.load(q_ptr + (pair * GROUP + rows[:, None]) * HEAD + dims[None, :], mask=mask_g[:, None], other=0.0)
    k_scale = tl.load(k_scale_ptr + kv_head)
    v_scale = tl.load(v_scale_ptr + kv_head)
    q = (q.to(tl.float32) * (sm_scale * k_scale * 1.44269504)).to(tl.bfloat16)
    each = tl.cdiv(tl.cdiv(LENGTH, SPLITS), BLOCK_N) * BLOCK_N
    first = split * each
    last = tl.minimum(first + each, LENGTH)
    m_i = tl.full((16,), float("-inf"), dtype=tl.float32)
    l_i = tl.zeros((16,), dtype=tl.float32)
    acc = tl.zeros((16, HEAD), dtype=tl.float32)
    for start in range(first, last, BLOCK_N):
        there = start + slots < last
        place = (pair * LENGTH + start + slots)[:, None] * HEAD + dims[None, :]
        k = tl.load(k_ptr + place, mask=there[:, None], other=0.0).to(tl.bfloat16)
        s = tl.dot(q, tl.trans(k))
        s = tl.where(there[None, :], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp2(s - m_new[:, None])
        alpha = tl.exp2(m_i - m_new)
        v = tl.load(v_ptr + place, mask=there[:, None], other=0.0).to(tl.bfloat16)
        acc = acc * alpha[:, None] + tl.dot(p.to(tl.bfloat16), v)
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    spot = (pair * MOST + split) * GROUP + rows
    result = acc * v_scale / tl.maximum(l_i, 1e-20)[:, None]
    tl.store(out_ptr + spot[:, None] * HEAD + dims[None, :], result, mask=mask_g[:, None])
    tl.store(lse_ptr + spot, m_i + tl.log2(tl.maximum(l_i, 1e-20)), mask=mask_g)


def inputs(batch, kv_heads, group, length, d):
    torch.manual_seed(0)
    q = torch.randn(batch, kv_heads, group, d, device=DEVICE).bfloat16()
    k, v = (torch.randn(batch, kv_heads, length, d, device=DEVICE).to(torch.float8_e4m3fn) for _ in range(2))
    return q, k, v, torch.rand(kv_heads, device=DEVICE) + 0.5, torch.rand(kv_heads, device=DEVICE) + 0.5


def run(batch=32, kv_heads=8, group=8, length=4096, d=128):
    q, k, v, k_scale, v_scale = inputs(batch, kv_heads, group, length, d)
    most = 16
    out = torch.zeros(batch, kv_heads, most, group, d, device=DEVICE)
    lse = torch.full((batch, kv_heads, most, group), float("-inf"), device=DEVICE)
    attention_decode_fp8[lambda meta: (batch, kv_heads, meta["SPLITS"])](
        q, k, v, k_scale, v_scale, out, lse, d**-0.5, length, kv_heads, most, group, d
    )
    weights = torch.softmax(lse * 0.6931471805599453, 2)
    return (out * weights[..., None]).sum(2).bfloat16()


def expected(batch=32, kv_heads=8, group=8, length=4096, d=128):
    q, k, v, k_scale, v_scale = inputs(batch, kv_heads, group, length, d)
    keys, values = (x.float() * s[:, None, None] for x, s in ((k, k_scale), (v, v_scale)))
    return torch.nn.functional.scaled_dot_product_attention(q.float(), keys, values).bfloat16()
