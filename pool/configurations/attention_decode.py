"""Attention of one new token per sequence over a long cache, the cache split between programs."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_N": n, "SPLITS": p}, num_warps=w, num_stages=s)
    for n, p, w, s in itertools.product((16, 32, 64, 128), (2, 4, 8, 16, 32), (1, 2, 4), (1, 2, 3, 4))
    if not (n == 128 and w == 1)
]


@triton.autotune(configs=CONFIGS, key=["LENGTH", "HEAD"])
@triton.jit
def attention_decode(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    lse_ptr,
    scale,
    LENGTH,
    MOST,
    GROUP: tl.constexpr,
    HEAD: tl.constexpr,
    BLOCK_N: tl.constexpr,
    SPLITS: tl.constexpr,
):
    head = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    each = tl.cdiv(LENGTH, SPLITS)
    first = split * each
    last = min(first + each, LENGTH)
    group = tl.arange(0, GROUP)
    dims = tl.arange(0, HEAD)
    keys = tl.arange(0, BLOCK_N)
    q = tl.load(q_ptr + head * GROUP * HEAD + group[:, None] * HEAD + dims[None, :])
    top = tl.full((GROUP,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((GROUP,), dtype=tl.float32)
    acc = tl.zeros((GROUP, HEAD), dtype=tl.float32)
    base = head * LENGTH * HEAD
    for start in range(first, last, BLOCK_N):
        there = start + keys < last
        k = tl.load(k_ptr + base + (start + keys)[None, :] * HEAD + dims[:, None], mask=there[None, :], other=0.0)
        v = tl.load(v_ptr + base + (start + keys)[:, None] * HEAD + dims[None, :], mask=there[:, None], other=0.0)
        scores = tl.where(there[None, :], tl.dot(q, k) * scale, float("-inf"))
        higher = tl.maximum(top, tl.max(scores, 1))
        p = tl.exp(scores - higher[:, None])
        fade = tl.exp(top - higher)
        total = total * fade + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.bfloat16), v, acc * fade[:, None])
        top = higher
    place = (head * MOST + split) * GROUP + group
    tl.store(out_ptr + place[:, None] * HEAD + dims[None, :], acc / tl.maximum(total, 1e-30)[:, None])
    tl.store(lse_ptr + place, top + tl.log(tl.maximum(total, 1e-30)))


def inputs(heads, length, d):
    torch.manual_seed(0)
    q = torch.randn(heads, 16, d, device=DEVICE).bfloat16()
    return q, *(torch.randn(heads, length, d, device=DEVICE).bfloat16() for _ in range(2))


def run(heads=64, length=8192, d=128):
    q, k, v = inputs(heads, length, d)
    most = 32
    out = torch.zeros(heads, most, 16, d, device=DEVICE)
    lse = torch.full((heads, most, 16), float("-inf"), device=DEVICE)
    attention_decode[lambda meta: (heads, meta["SPLITS"])](q, k, v, out, lse, d**-0.5, length, most, 16, d)
    weights = torch.softmax(lse, 1)
    return (out * weights[..., None]).sum(1).bfloat16()


def expected(heads=64, length=8192, d=128):
    q, k, v = (t.float() for t in inputs(heads, length, d))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v).bfloat16()
