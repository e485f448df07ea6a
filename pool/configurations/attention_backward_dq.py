"""Gradient of attention's queries in bf16, causal: a program per block of queries, with delta reckoned on the way."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_warps=w, num_stages=s)
    for m, n, w, s in itertools.product((32, 64, 128), (16, 32, 64, 128), (2, 4, 8), (1, 2, 3, 4, 5))
    if not (m == 128 and w == 2) and not (m == 32 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["seqlen", "D"])
@triton.jit
def attention_backward_dq(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    do_ptr,
    lse_ptr,
    dq_ptr,
    sm_scale,
    seqlen,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    RCP_LN2: tl.constexpr = 1.4426950408889634
    pid_m, pid_h = tl.program_id(0), tl.program_id(1)
    base = pid_h.to(tl.int64) * seqlen * D
    offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, D)
    mask_m = offs_m < seqlen
    offs_q = base + offs_m[:, None] * D + offs_d[None, :]
    q = tl.load(q_ptr + offs_q, mask=mask_m[:, None], other=0.0)
    do = tl.load(do_ptr + offs_q, mask=mask_m[:, None], other=0.0)
    o = tl.load(o_ptr + offs_q, mask=mask_m[:, None], other=0.0)
    delta = tl.sum(o.to(tl.float32) * do.to(tl.float32), axis=1)
    lse = tl.load(lse_ptr + pid_h * seqlen + offs_m, mask=mask_m, other=0.0)
    dq = tl.zeros([BLOCK_M, D], dtype=tl.float32)
    end = tl.minimum((pid_m + 1) * BLOCK_M, seqlen)
    for start_n in range(0, end, BLOCK_N):
        cols = start_n + offs_n
        offs_kv = base + cols[:, None] * D + offs_d[None, :]
        k = tl.load(k_ptr + offs_kv, mask=cols[:, None] < seqlen, other=0.0)
        v = tl.load(v_ptr + offs_kv, mask=cols[:, None] < seqlen, other=0.0)
        qk = tl.dot(q, tl.trans(k))
        p = tl.exp2(qk * (sm_scale * RCP_LN2) - lse[:, None])
        p = tl.where(offs_m[:, None] >= cols[None, :], p, 0.0)
        dp = tl.dot(do, tl.trans(v))
        ds = (p * (dp - delta[:, None])).to(k.dtype)
        dq += tl.dot(ds, k)
    tl.store(dq_ptr + offs_q, (dq * sm_scale).to(tl.bfloat16), mask=mask_m[:, None])


def inputs(heads, n, d):
    torch.manual_seed(0)
    q, k, v, do = (torch.randn(heads, n, d, device=DEVICE).bfloat16() for _ in range(4))
    later = torch.ones(n, n, dtype=torch.bool, device=DEVICE).triu(1)
    out, lse = [], []
    for one in range(heads):  # one head at a time: the scores of all would fill the memory
        scores = (q[one].float() @ k[one].float().T * d**-0.5).masked_fill(later, -torch.inf)
        lse.append(torch.logsumexp(scores, 1) * 1.4426950408889634)
        out.append((torch.softmax(scores, 1) @ v[one].float()).bfloat16())
    return q, k, v, torch.stack(out), do, torch.stack(lse)


def run(heads=64, n=2048, d=128):
    q, k, v, o, do, lse = inputs(heads, n, d)
    dq = torch.empty_like(q)
    attention_backward_dq[lambda meta: (triton.cdiv(n, meta["BLOCK_M"]), heads)](q, k, v, o, do, lse, dq, d**-0.5, n, d)
    return dq


def expected(heads=64, n=2048, d=128):
    q, k, v, o, do, _ = inputs(heads, n, d)
    later = torch.ones(n, n, dtype=torch.bool, device=DEVICE).triu(1)
    found = []
    for one in range(heads):
        scores = (q[one].float() @ k[one].float().T * d**-0.5).masked_fill(later, -torch.inf)
        dp = do[one].float() @ v[one].float().T
        ds = torch.softmax(scores, 1) * (dp - (o[one].float() * do[one].float()).sum(1, keepdim=True))
        found.append(ds @ k[one].float() * d**-0.5)
    return torch.stack(found).bfloat16()
