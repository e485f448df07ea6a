import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def divide(x, norm, y, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    inverse = 1.0 / tl.maximum(tl.load(norm + row), 1e-12)
    for k in range(0, cols, BLOCK):
        at = k + tl.arange(0, BLOCK)
        tl.store(y + row * cols + at, tl.load(x + row * cols + at, mask=at < cols) * inverse, mask=at < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        norm = torch.linalg.vector_norm(x, dim=1)
        y = torch.empty_like(x)
        divide[(x.shape[0],)](x, norm, y, x.shape[1], BLOCK=1024)
        return y
