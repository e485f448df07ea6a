import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gelu_(v_ptr, n, BLOCK: tl.constexpr):
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(v_ptr + k, mask=k < n)
    tl.store(v_ptr + k, 0.5 * v * (1.0 + tl.math.erf(v * 0.7071067811865476)), mask=k < n)


class ModelNew(nn.Module):
    """Adds by torch and applies GELU in place."""

    def __init__(self, cols):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, product):
        v = product + self.bias
        gelu_[(triton.cdiv(v.numel(), 4096),)](v, v.numel(), BLOCK=4096, num_warps=8)
        return v
