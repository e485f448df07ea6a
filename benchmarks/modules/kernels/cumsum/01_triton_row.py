import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def cumsum_row(x, y, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    k = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + k, mask=k < n, other=0.0)
    tl.store(y + row * n + k, tl.cumsum(v, axis=0), mask=k < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        cumsum_row[(x.shape[0],)](x, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=16)
        return y
