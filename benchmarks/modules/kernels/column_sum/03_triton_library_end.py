import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def sum_row_blocks(x, parts, rows, cols, R: tl.constexpr, C: tl.constexpr):
    r = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    c = tl.program_id(1) * C + tl.arange(0, C)[None, :]
    v = tl.load(x + r * cols + c, mask=(r < rows) & (c < cols), other=0.0)
    tl.store(parts + tl.program_id(0) * cols + tl.program_id(1) * C + tl.arange(0, C), tl.sum(v, axis=0),
             mask=tl.program_id(1) * C + tl.arange(0, C) < cols)


class ModelNew(nn.Module):
    def forward(self, x):
        rows, cols = x.shape
        count = triton.cdiv(rows, 64)
        parts = x.new_empty(count, cols)
        sum_row_blocks[(count, triton.cdiv(cols, 64))](x, parts, rows, cols, R=64, C=64)
        return parts.sum(0)
