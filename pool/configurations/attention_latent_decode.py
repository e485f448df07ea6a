"""Decoding over a paged cache of latent vectors that all heads share, first stage: a part of the cache per program."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MOST_SPLITS = 32
CONFIGS = [
    triton.Config({"BLOCK_N": n, "BLOCK_H": h, "NUM_KV_SPLITS": p}, num_warps=w, num_stages=s)
    for n, h, p, w, s in itertools.product((16, 32, 64), (16, 32), (4, 8, 16, 32), (2, 4, 8), (1, 2, 3))
    if not (n == 64 and w == 2)
]


@triton.autotune(configs=CONFIGS, key=["heads", "BLOCK_DMODEL"])
@triton.jit
def attention_latent_decode(
    Q,
    KV_Buffer,
    Att_Out,
    Att_Lse,
    kv_indptr,
    kv_indices,
    sm_scale,
    heads,
    stride_qb,
    stride_qh,
    stride_kv,
    stride_ob,
    stride_oh,
    stride_os,
    BLOCK_DMODEL: tl.constexpr,
    BLOCK_DPE: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_H: tl.constexpr,
    NUM_KV_SPLITS: tl.constexpr,
    MOST: tl.constexpr,
):
    cur_batch = tl.program_id(0)
    cur_head = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    split_kv_id = tl.program_id(2)
    mask_h = cur_head < heads
    offs_d = tl.arange(0, BLOCK_DMODEL)
    offs_dpe = BLOCK_DMODEL + tl.arange(0, BLOCK_DPE)
    kv_start = tl.load(kv_indptr + cur_batch)
    seq_len = tl.load(kv_indptr + cur_batch + 1) - kv_start
    off_q = cur_batch * stride_qb + cur_head[:, None] * stride_qh
    q = tl.load(Q + off_q + offs_d[None, :], mask=mask_h[:, None], other=0.0)
    qpe = tl.load(Q + off_q + offs_dpe[None, :], mask=mask_h[:, None], other=0.0)
    kv_len_per_split = tl.cdiv(seq_len, NUM_KV_SPLITS)
    split_start = kv_len_per_split * split_kv_id
    split_end = tl.minimum(split_start + kv_len_per_split, seq_len)
    e_max = tl.zeros([BLOCK_H], dtype=tl.float32) - float("inf")
    e_sum = tl.zeros([BLOCK_H], dtype=tl.float32)
    acc = tl.zeros([BLOCK_H, BLOCK_DMODEL], dtype=tl.float32)
    if split_end > split_start:
        for start_n in range(split_start, split_end, BLOCK_N):
            offs_n = start_n + tl.arange(0, BLOCK_N)
            mask_n = offs_n < split_end
            kv_loc = tl.load(kv_indices + kv_start + offs_n, mask=mask_n, other=0).to(tl.int64)
            k = tl.load(KV_Buffer + kv_loc[None, :] * stride_kv + offs_d[:, None], mask=mask_n[None, :], other=0.0)
            qk = tl.dot(q, k)
            kpe = tl.load(KV_Buffer + kv_loc[None, :] * stride_kv + offs_dpe[:, None], mask=mask_n[None, :], other=0.0)
            qk += tl.dot(qpe, kpe)
            qk = tl.where(mask_h[:, None] & mask_n[None, :], qk * sm_scale, float("-inf"))
            n_e_max = tl.maximum(tl.max(qk, 1), e_max)
            re_scale = tl.exp(e_max - n_e_max)
            p = tl.exp(qk - n_e_max[:, None])
            acc = acc * re_scale[:, None] + tl.dot(p.to(k.dtype), tl.trans(k))
            e_sum = e_sum * re_scale + tl.sum(p, 1)
            e_max = n_e_max
        place = cur_batch * stride_ob + cur_head * stride_oh + split_kv_id * stride_os
        tl.store(Att_Out + place[:, None] + offs_d[None, :], acc / e_sum[:, None], mask=mask_h[:, None])
        tl.store(Att_Lse + (cur_batch * heads + cur_head) * MOST + split_kv_id, e_max + tl.log(e_sum), mask=mask_h)


def inputs(batch, heads, length):
    torch.manual_seed(0)
    q = torch.randn(batch, heads, 576, device=DEVICE).bfloat16()
    kv = torch.randn(batch * length, 576, device=DEVICE).bfloat16()
    place = torch.randperm(batch * length, device=DEVICE, dtype=torch.int64).int()
    return q, kv, torch.arange(batch + 1, dtype=torch.int32, device=DEVICE) * length, place


def run(batch=32, heads=32, length=4096):
    q, kv, starts, place = inputs(batch, heads, length)
    out = torch.zeros(batch, heads, MOST_SPLITS, 512, device=DEVICE)
    lse = torch.full((batch, heads, MOST_SPLITS), float("-inf"), device=DEVICE)
    attention_latent_decode[lambda meta: (batch, triton.cdiv(heads, meta["BLOCK_H"]), meta["NUM_KV_SPLITS"])](
        q,
        kv,
        out,
        lse,
        starts,
        place,
        576**-0.5,
        heads,
        q.stride(0),
        q.stride(1),
        kv.stride(0),
        out.stride(0),
        out.stride(1),
        out.stride(2),
        BLOCK_DMODEL=512,
        BLOCK_DPE=64,
        MOST=MOST_SPLITS,
    )
    return (out * torch.softmax(lse, 2)[..., None]).sum(2).bfloat16()


def expected(batch=32, heads=32, length=4096):
    q, kv, _, place = inputs(batch, heads, length)
    found = []
    for one in range(batch):
        keys = kv[place[one * length : (one + 1) * length].long()].float()
        found.append(torch.softmax(q[one].float() @ keys.T * 576**-0.5, 1) @ keys[:, :512])
    return torch.stack(found).bfloat16()
