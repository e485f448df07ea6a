import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def rmsnorm(h, weight, y, cols, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, WIDTH)
    v = tl.load(h + row * cols + col, mask=col < cols, other=0.0)
    v = v * tl.rsqrt(tl.sum(v * v) / cols + 1e-6)
    tl.store(y + row * cols + col, v * tl.load(weight + col, mask=col < cols), mask=col < cols)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x, residual):
        h = torch.add(x, residual)
        y = torch.empty_like(h)
        rmsnorm[(h.shape[0],)](h, self.weight, y, h.shape[1], WIDTH=triton.next_power_of_2(h.shape[1]), num_warps=4)
        return y, h
