import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.autotune(
    configs=[triton.Config({"ROWS_PER_PROGRAM": r}, num_warps=w) for r in (1, 2) for w in (4, 8)],
    key=["cols"],
)
@triton.jit
def norm_rows(x, y, weight, bias, rows, cols, eps, ROWS_PER_PROGRAM: tl.constexpr, WIDTH: tl.constexpr):
    row = tl.program_id(0) * ROWS_PER_PROGRAM + tl.arange(0, ROWS_PER_PROGRAM)[:, None]
    col = tl.arange(0, WIDTH)[None, :]
    mask = (row < rows) & (col < cols)
    v = tl.load(x + row * cols + col, mask=mask, other=0.0)
    mean = tl.sum(v, axis=1, keep_dims=True) / cols
    centred = tl.where(mask, v - mean, 0.0)
    variance = tl.sum(centred * centred, axis=1, keep_dims=True) / cols
    out = centred * tl.rsqrt(variance + eps)
    out = out * tl.load(weight + col, mask=col < cols) + tl.load(bias + col, mask=col < cols)
    tl.store(y + row * cols + col, out, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)
        self.bias = nn.Parameter(torch.randn(cols))

    def forward(self, x):
        rows, cols = x.shape
        y = torch.empty_like(x)
        grid = lambda meta: (triton.cdiv(rows, meta["ROWS_PER_PROGRAM"]),)
        norm_rows[grid](x, y, self.weight, self.bias, rows, cols, 1e-5, WIDTH=triton.next_power_of_2(cols))
        return y
