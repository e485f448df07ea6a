import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def add_rmsnorm(x, residual, weight, y, h, cols, eps, WIDTH: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, WIDTH)
    mask = col < cols
    a = tl.load(x + row * cols + col, mask=mask, other=0.0)
    b = tl.load(residual + row * cols + col, mask=mask, other=0.0)
    s = a + b
    tl.store(h + row * cols + col, s, mask=mask)
    r = tl.rsqrt(tl.sum(s * s, axis=0) / cols + eps)
    w = tl.load(weight + col, mask=mask)
    tl.store(y + row * cols + col, s * r * w, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x, residual):
        y, h = torch.empty_like(x), torch.empty_like(x)
        rows, cols = x.shape
        add_rmsnorm[(rows,)](x, residual, self.weight, y, h, cols, 1e-6, WIDTH=triton.next_power_of_2(cols), num_warps=8)
        return y, h
