"""Brings the lengths to the host and launches a kernel for each segment."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def mean_rows(x, y, first, count, cols, COLS: tl.constexpr, ROWS: tl.constexpr):
    col = tl.program_id(0) * COLS + tl.arange(0, COLS)
    acc = tl.zeros((COLS,), tl.float32)
    for start in range(0, count, ROWS):
        row = start + tl.arange(0, ROWS)
        at = (first + row)[:, None] * cols + col[None, :]
        acc += tl.sum(tl.load(x + at, mask=(row < count)[:, None] & (col < cols)[None, :], other=0.0), axis=0)
    tl.store(y + col, acc / count, mask=col < cols)


class ModelNew(nn.Module):
    def forward(self, x, lengths):
        cols = x.shape[1]
        out = torch.zeros(lengths.numel(), cols, device=x.device)
        first = 0
        for segment, count in enumerate(lengths.cpu().tolist()):
            if count > 0:
                mean_rows[(triton.cdiv(cols, 64),)](x, out[segment], first, count, cols, COLS=64, ROWS=32)
            first += count
        return out
