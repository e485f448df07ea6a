"""The largest magnitude comes to the host through a pinned buffer, and goes back as a number of the launch."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def largest(x, parts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(parts + tl.program_id(0), tl.max(tl.abs(tl.load(x + at, mask=at < n, other=0.0)), 0))


@triton.jit
def divide(x, y, n, by, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) / by, mask=at < n)


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.host = None

    def forward(self, x):
        n = x.numel()
        blocks = triton.cdiv(n, 4096)
        parts = torch.empty(blocks, device=x.device)
        largest[(blocks,)](x, parts, n, BLOCK=4096)
        if self.host is None or self.host.numel() != blocks:
            self.host = torch.empty(blocks, pin_memory=True)
        self.host.copy_(parts, non_blocking=True)
        torch.cuda.current_stream().synchronize()
        y = torch.empty_like(x)
        divide[(blocks,)](x, y, n, float(self.host.max()), BLOCK=4096)
        return y
