"""Copies both halves before a flat kernel, as wrappers that ask for contiguous tensors do."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_times(a_ptr, b_ptr, c_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    a = tl.load(a_ptr + offsets, mask=mask).to(tl.float32)
    b = tl.load(b_ptr + offsets, mask=mask)
    tl.store(c_ptr + offsets, a * tl.sigmoid(a) * b, mask=mask)


class ModelNew(nn.Module):
    def forward(self, x):
        gate, up = x.chunk(2, dim=-1)
        gate = gate.contiguous()
        up = up.contiguous()
        out = torch.empty_like(gate)
        n = out.numel()
        silu_times[(triton.cdiv(n, 1024),)](gate, up, out, n, BLOCK_SIZE=1024)
        return out
