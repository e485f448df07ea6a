"""Linear attention with a decay per head, step by step over time; programs share the keys' width and write parts."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BK": k, "BV": v}, num_warps=w, num_stages=s)
    for k, v, w, s in itertools.product((16, 32, 64, 128), (8, 16, 32, 64, 128), (1, 2, 4, 8), (1, 2))
    if not (k * v >= 64 * 64 and w == 1) and not (k * v <= 16 * 16 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["K", "V"])
@triton.jit
def recurrence(q, k, v, g, o, scale, B, T, H, K: tl.constexpr, V: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr):
    i_v, i_k, i_bh = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    i_b, i_h = i_bh // H, i_bh % H
    o_k = i_k * BK + tl.arange(0, BK)
    o_v = i_v * BV + tl.arange(0, BV)
    first = (i_b * T * H + i_h).to(tl.int64)
    p_q = q + first * K + o_k
    p_k = k + first * K + o_k
    p_v = v + first * V + o_v
    p_o = o + (i_k.to(tl.int64) * B * T * H + first) * V + o_v
    mask_k, mask_v = o_k < K, o_v < V
    fade = tl.exp(tl.load(g + i_h))
    b_h = tl.zeros([BV, BK], dtype=tl.float32)
    for _ in range(0, T):
        b_q = tl.load(p_q, mask=mask_k, other=0).to(tl.float32) * scale
        b_k = tl.load(p_k, mask=mask_k, other=0).to(tl.float32)
        b_v = tl.load(p_v, mask=mask_v, other=0).to(tl.float32)
        b_h = b_h * fade + b_k[None, :] * b_v[:, None]
        tl.store(p_o, tl.sum(b_h * b_q[None, :], axis=1), mask=mask_v)
        p_q += H * K
        p_k += H * K
        p_v += H * V
        p_o += H * V


def inputs(batch, t, heads, k, v):
    torch.manual_seed(0)
    left = [torch.randn(batch, t, heads, k, device=DEVICE).bfloat16() for _ in range(2)]
    values = torch.randn(batch, t, heads, v, device=DEVICE).bfloat16()
    return *left, values, -torch.linspace(0.01, 0.1, heads, device=DEVICE)


def run(batch=16, t=512, heads=16, k=128, v=128):
    q, keys, values, g = inputs(batch, t, heads, k, v)
    out = torch.zeros(8, batch, t, heads, v, device=DEVICE)
    recurrence[lambda meta: (triton.cdiv(v, meta["BV"]), triton.cdiv(k, meta["BK"]), batch * heads)](
        q, keys, values, g, out, k**-0.5, batch, t, heads, k, v
    )
    return out.sum(0).bfloat16()


def expected(batch=16, t=512, heads=16, k=128, v=128):
    q, keys, values, g = inputs(batch, t, heads, k, v)
    q, keys, values = (x.float().transpose(1, 2) for x in (q, keys, values))
    step = torch.arange(t, device=DEVICE)
    fade = torch.exp((step[:, None] - step[None, :]).clamp(min=0) * g[:, None, None])
    out = ((q @ keys.transpose(2, 3)) * fade).tril() @ values
    return (out * k**-0.5).transpose(1, 2).bfloat16()
