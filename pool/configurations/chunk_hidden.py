"""States at the beginning of each chunk of a linear attention with a decay: a product per chunk, one after another."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BK": k, "BV": v}, num_warps=w, num_stages=s)
    for k, v, w, s in itertools.product((16, 32, 64, 128), (16, 32, 64, 128), (1, 2, 4, 8), (1, 2, 3, 4))
    if not (k * v >= 64 * 64 and w == 1) and not (k * v <= 16 * 32 and w >= 4)
]


@triton.autotune(configs=CONFIGS, key=["K", "V", "BT"])
@triton.jit
def chunk_hidden(
    k_ptr,
    v_ptr,
    g_ptr,
    h_ptr,
    T,
    H: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BT: tl.constexpr,
    BK: tl.constexpr,
    BV: tl.constexpr,
):
    i_k, i_v, i_nh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_n, i_h = i_nh // H, i_nh % H
    o_k = i_k * BK + tl.arange(0, BK)
    o_v = i_v * BV + tl.arange(0, BV)
    o_t = tl.arange(0, BT)
    NT = tl.cdiv(T, BT)
    b_h = tl.zeros([BK, BV], dtype=tl.float32)
    for i_t in range(NT):
        p_h = h_ptr + ((i_n * NT + i_t) * H + i_h).to(tl.int64) * K * V + o_k[:, None] * V + o_v[None, :]
        tl.store(p_h, b_h.to(tl.bfloat16))
        t = i_n * T + i_t * BT + o_t
        b_k = tl.load(k_ptr + (t[None, :] * H + i_h) * K + o_k[:, None])
        b_v = tl.load(v_ptr + (t[:, None] * H + i_h) * V + o_v[None, :])
        b_g = tl.load(g_ptr + t * H + i_h)
        b_last = tl.load(g_ptr + (i_n * T + i_t * BT + BT - 1) * H + i_h)
        b_h *= tl.exp(b_last)
        b_v = (b_v * tl.exp(b_last - b_g)[:, None]).to(b_k.dtype)
        b_h += tl.dot(b_k, b_v)


def inputs(batch, t, heads, k, v):
    torch.manual_seed(0)
    keys = torch.randn(batch, t, heads, k, device=DEVICE).bfloat16()
    values = torch.randn(batch, t, heads, v, device=DEVICE).bfloat16()
    decay = -torch.rand(batch, t // 64, 64, heads, device=DEVICE).cumsum(2) / 32
    return keys, values, decay.reshape(batch, t, heads)


def run(batch=4, t=4096, heads=16, k=128, v=128):
    keys, values, decay = inputs(batch, t, heads, k, v)
    out = torch.empty(batch, t // 64, heads, k, v, dtype=torch.bfloat16, device=DEVICE)
    chunk_hidden[lambda meta: (triton.cdiv(k, meta["BK"]), triton.cdiv(v, meta["BV"]), batch * heads)](
        keys, values, decay, out, t, heads, k, v, 64
    )
    return out


def expected(batch=4, t=4096, heads=16, k=128, v=128):
    keys, values, decay = inputs(batch, t, heads, k, v)
    g = decay.reshape(batch, t // 64, 64, heads)
    last = g[:, :, -1:]
    left = keys.float().reshape(batch, t // 64, 64, heads, k)
    right = values.float().reshape(batch, t // 64, 64, heads, v) * torch.exp(last - g)[..., None]
    parts = torch.einsum("bcthk,bcthv->bchkv", left, right)
    out, state = torch.empty_like(parts), torch.zeros_like(parts[:, 0])
    for c in range(t // 64):
        out[:, c] = state
        state = state * torch.exp(last[:, c, 0])[..., None, None] + parts[:, c]
    return out.bfloat16()
