"""Attention of one new token per sequence over a cache in pages, one query head per program, without tensor cores."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PAGE = 16
CONFIGS = [
    triton.Config({"PAGES": p, "PARTS": q}, num_warps=w, num_stages=s)
    for p, q, w, s in itertools.product((1, 2, 4, 8, 16), (1, 2, 4, 8, 16), (1, 2, 4, 8), (1, 2, 3))
    if not (p <= 2 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["LENGTH", "HEAD"])
@triton.jit
def attention_paged(
    q_ptr,
    k_ptr,
    v_ptr,
    table_ptr,
    out_ptr,
    lse_ptr,
    scale,
    LENGTH,
    MOST_PAGES,
    HEADS,
    MOST_PARTS,
    PAGE: tl.constexpr,
    HEAD: tl.constexpr,
    PAGES: tl.constexpr,
    PARTS: tl.constexpr,
):
    sequence = tl.program_id(0)
    head = tl.program_id(1)
    part = tl.program_id(2)
    dims = tl.arange(0, HEAD)
    slots = tl.arange(0, PAGES * PAGE)
    q = tl.load(q_ptr + (sequence * HEADS + head) * HEAD + dims).to(tl.float32) * scale
    top = -float("inf")
    total = 0.0
    acc = tl.zeros((HEAD,), dtype=tl.float32)
    each = tl.cdiv(tl.cdiv(LENGTH, PAGE), PARTS) * PAGE
    first = part * each
    last = min(first + each, LENGTH)
    for start in range(first, last, PAGES * PAGE):
        position = start + slots
        there = position < last
        page = tl.load(table_ptr + sequence * MOST_PAGES + position // PAGE, mask=there, other=0).to(tl.int64)
        place = ((page * HEADS + head) * PAGE + position % PAGE)[:, None] * HEAD + dims[None, :]
        k = tl.load(k_ptr + place, mask=there[:, None], other=0.0).to(tl.float32)
        scores = tl.where(there, tl.sum(k * q[None, :], 1), -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 0))
        p = tl.exp(scores - higher)
        fade = tl.exp(top - higher)
        v = tl.load(v_ptr + place, mask=there[:, None], other=0.0).to(tl.float32)
        acc = acc * fade + tl.sum(v * p[:, None], 0)
        total = total * fade + tl.sum(p, 0)
        top = higher
    place = (sequence * HEADS + head) * MOST_PARTS + part
    tl.store(out_ptr + place * HEAD + dims, acc / tl.maximum(total, 1e-30))
    tl.store(lse_ptr + place, top + tl.log(tl.maximum(total, 1e-30)))


def inputs(sequences, heads, length, d):
    torch.manual_seed(0)
    pages = -(-length // PAGE)
    table = torch.randperm(sequences * pages, device=DEVICE).view(sequences, pages).int()
    q = torch.randn(sequences, heads, d, device=DEVICE).bfloat16()
    return q, *(torch.randn(sequences * pages, heads, PAGE, d, device=DEVICE).bfloat16() for _ in range(2)), table


def run(sequences=16, heads=16, length=4096, d=128):
    q, k, v, table = inputs(sequences, heads, length, d)
    most = 16
    out = torch.zeros(sequences, heads, most, d, device=DEVICE)
    lse = torch.full((sequences, heads, most), float("-inf"), device=DEVICE)
    attention_paged[lambda meta: (sequences, heads, meta["PARTS"])](
        q, k, v, table, out, lse, d**-0.5, length, table.shape[1], heads, most, PAGE, d
    )
    return (out * torch.softmax(lse, 2)[..., None]).sum(2).bfloat16()


def expected(sequences=16, heads=16, length=4096, d=128):
    q, k, v, table = inputs(sequences, heads, length, d)
    k, v = (t[table.long()].transpose(2, 3).flatten(1, 2)[:, :length].float() for t in (k, v))
    scores = torch.einsum("shd,slhd->shl", q.float(), k) * d**-0.5
    return torch.einsum("shl,slhd->shd", torch.softmax(scores, 2), v).bfloat16()
