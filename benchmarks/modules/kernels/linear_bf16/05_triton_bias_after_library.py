"""cuBLAS in fp32 accumulation writes bf16 products; the bias is added by a kernel, in place."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_bias_(y, bias, n, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(y + at, mask=at < n).to(tl.float32)
    b = tl.load(bias + at % cols, mask=at < n).to(tl.float32)
    tl.store(y + at, (v + b).to(tl.bfloat16), mask=at < n)


class ModelNew(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outer, inner) / inner**0.5).to(torch.bfloat16))
        self.bias = nn.Parameter(torch.randn(outer).to(torch.bfloat16))

    def forward(self, x):
        y = torch.mm(x, self.weight.t())
        add_bias_[(triton.cdiv(y.numel(), 2048),)](y, self.bias, y.numel(), y.shape[1], BLOCK=2048)
        return y
