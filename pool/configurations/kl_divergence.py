"""Divergence between two distributions given as logarithms, with a gradient, a row per program."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK": b}, num_warps=w, num_stages=s)
    for b, w, s in itertools.product((128, 256, 512, 1024, 2048, 4096, 8192), (1, 2, 4, 8, 16), (1, 2, 3))
]


@triton.autotune(configs=CONFIGS, key=["V"])
@triton.jit
def kl_divergence(p_ptr, q_ptr, loss_ptr, dq_ptr, V, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * V
    cols = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, V, BLOCK):
        there = start + cols < V
        log_p = tl.load(p_ptr + row + start + cols, mask=there, other=0.0)
        log_q = tl.load(q_ptr + row + start + cols, mask=there, other=0.0)
        p = tl.exp(log_p)
        total += tl.where(there, p * (log_p - log_q), 0.0)
        tl.store(dq_ptr + row + start + cols, -p, mask=there)
    tl.store(loss_ptr + tl.program_id(0), tl.sum(total))


def inputs(m, v):
    torch.manual_seed(0)
    return tuple(torch.log_softmax(torch.randn(m, v, device=DEVICE), 1) for _ in range(2))


def run(m=4096, v=16384):
    p, q = inputs(m, v)
    loss, dq = torch.empty(m, device=DEVICE), torch.empty_like(q)
    kl_divergence[(m,)](p, q, loss, dq, v)
    return loss, dq


def expected(m=4096, v=16384):
    p, q = inputs(m, v)
    return (p.exp() * (p - q)).sum(1), -p.exp()
