import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def scan_blocks(inp, out, n_cols, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    carry = 0.0
    for start in range(0, n_cols, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        v = tl.load(inp + pid * n_cols + offs, mask=offs < n_cols, other=0.0)
        tl.store(out + pid * n_cols + offs, tl.cumsum(v, 0) + carry, mask=offs < n_cols)
        carry += tl.sum(v, 0)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = 512

    def forward(self, x):
        y = torch.empty_like(x)
        scan_blocks[(x.shape[0],)](x, y, x.shape[1], BLOCK=self.block)
        return y
