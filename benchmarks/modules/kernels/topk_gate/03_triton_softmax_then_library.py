"""Softmax by a kernel into scratch memory; torch finds the two largest and divides."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def softmax64(x, y, rows, E: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    at = r * E + tl.arange(0, E)[None, :]
    v = tl.load(x + at, mask=r < rows, other=0.0)
    v = tl.exp(v - tl.max(v, axis=1, keep_dims=True))
    tl.store(y + at, v / tl.sum(v, axis=1, keep_dims=True), mask=r < rows)


class ModelNew(nn.Module):
    def forward(self, logits):
        p = torch.empty_like(logits)
        softmax64[(triton.cdiv(logits.shape[0], 32),)](logits, p, logits.shape[0], E=logits.shape[1], BLOCK=32)
        weights, experts = torch.topk(p, 2, dim=-1)
        return weights / weights.sum(dim=-1, keepdim=True), experts
