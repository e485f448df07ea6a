import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scale_rows_(y, scale, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    s = tl.load(scale + row)
    for k in range(0, n, BLOCK):
        at = k + tl.arange(0, BLOCK)
        tl.store(y + row * n + at, tl.load(y + row * n + at, mask=at < n) * s, mask=at < n)


class ModelNew(nn.Module):
    """Torch copies, a kernel scales in place."""

    def __init__(self, cols):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(cols) + 0.5)

    def forward(self, x):
        y = x.t().contiguous()
        scale_rows_[(y.shape[0],)](y, self.scale, y.shape[1], BLOCK=2048)
        return y
