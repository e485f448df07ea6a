"""Outputs of the chunks of a gated linear attention: queries with the state before, and with keys of the chunk."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BK": k, "BV": v}, num_warps=w, num_stages=s)
    for k, v, w, s in itertools.product((16, 32, 64, 128), (16, 32, 64, 128), (1, 2, 4, 8), (2, 3, 4))
    if not (v == 128 and w == 1) and not (v == 16 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["H", "K", "V", "BT"])
@triton.jit(do_not_specialize=["T"])
def chunk_output(
    q,
    k,
    v,
    h,
    g,
    o,
    scale,
    T,
    H: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
):
    i_v, i_t, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_b, i_h = i_bh // H, i_bh % H
    NT = tl.cdiv(T, BT)
    i_tg = i_b * NT + i_t
    bos = i_b * T
    q += (bos * H + i_h) * K
    k += (bos * H + i_h) * K
    v += (bos * H + i_h) * V
    o += (bos * H + i_h) * V
    h += (i_tg * H + i_h).to(tl.int64) * K * V
    b_o = tl.zeros([BT, BV], dtype=tl.float32)
    b_A = tl.zeros([BT, BT], dtype=tl.float32)
    for i_k in range(tl.cdiv(K, BK)):
        p_q = tl.make_block_ptr(q, (T, K), (H * K, 1), (i_t * BT, i_k * BK), (BT, BK), (1, 0))
        p_k = tl.make_block_ptr(k, (K, T), (1, H * K), (i_k * BK, i_t * BT), (BK, BT), (0, 1))
        p_h = tl.make_block_ptr(h, (K, V), (V, 1), (i_k * BK, i_v * BV), (BK, BV), (1, 0))
        b_q = tl.load(p_q, boundary_check=(0, 1))
        b_k = tl.load(p_k, boundary_check=(0, 1))
        b_h = tl.load(p_h, boundary_check=(0, 1))
        b_o += tl.dot(b_q, b_h)
        b_A += tl.dot(b_q, b_k)
    g += bos * H + i_h
    p_g = tl.make_block_ptr(g, (T,), (H,), (i_t * BT,), (BT,), (0,))
    b_g = tl.load(p_g, boundary_check=(0,))
    b_o = b_o * tl.exp(b_g)[:, None]
    b_A = b_A * tl.exp(b_g[:, None] - b_g[None, :])
    o_t = i_t * BT + tl.arange(0, BT)
    m_t = o_t < T
    m_A = (o_t[:, None] >= o_t[None, :]) & (m_t[:, None] & m_t)
    b_A = tl.where(m_A, b_A, 0)
    p_v = tl.make_block_ptr(v, (T, V), (H * V, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
    p_o = tl.make_block_ptr(o, (T, V), (H * V, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
    b_v = tl.load(p_v, boundary_check=(0, 1))
    b_o = b_o * scale + tl.dot(b_A.to(b_v.dtype), b_v) * scale
    tl.store(p_o, b_o.to(p_o.dtype.element_ty), boundary_check=(0, 1))


def inputs(batch, t, heads, k, v):
    torch.manual_seed(0)
    left = [torch.randn(batch, t, heads, k, device=DEVICE).bfloat16() for _ in range(2)]
    values = torch.randn(batch, t, heads, v, device=DEVICE).bfloat16()
    state = torch.randn(batch, t // 64, heads, k, v, device=DEVICE).bfloat16()
    decay = -torch.rand(batch, t // 64, 64, heads, device=DEVICE).cumsum(2) / 64
    return *left, values, state, decay.reshape(batch, t, heads)


def run(batch=4, t=8192, heads=16, k=128, v=128):
    q, keys, values, state, decay = inputs(batch, t, heads, k, v)
    out = torch.empty_like(values)
    chunk_output[lambda meta: (triton.cdiv(v, meta["BV"]), t // 64, batch * heads)](
        q, keys, values, state, decay, out, k**-0.5, t, heads, k, v, 64
    )
    return out


def expected(batch=4, t=8192, heads=16, k=128, v=128):
    q, keys, values, state, decay = inputs(batch, t, heads, k, v)
    q, keys, values = (x.float().reshape(batch, t // 64, 64, heads, -1).transpose(2, 3) for x in (q, keys, values))
    g = decay.reshape(batch, t // 64, 64, heads).transpose(2, 3)
    scores = q @ keys.transpose(3, 4) * torch.exp(g[..., :, None] - g[..., None, :])
    out = scores.tril() @ values + (q @ state.float()) * torch.exp(g)[..., None]
    return (out * k**-0.5).transpose(2, 3).reshape(batch, t, heads, v).bfloat16()
