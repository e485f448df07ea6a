import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def dot_row(a, x, y, M, K, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    k = tl.arange(0, WIDTH)
    v = tl.load(a + row.to(tl.int64) * K + k, mask=k < K, other=0.0)
    u = tl.load(x + row // M * K + k, mask=k < K, other=0.0)
    tl.store(y + row, tl.sum(v * u, axis=0))


class ModelNew(nn.Module):
    def forward(self, a, x):
        b, m, k = a.size()
        y = a.new_empty(b * m)
        dot_row[(b * m,)](a, x, y, m, k, WIDTH=triton.next_power_of_2(k), num_warps=2)
        return y.view(b, m)
