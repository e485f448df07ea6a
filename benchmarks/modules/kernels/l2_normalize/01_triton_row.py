import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def l2norm(x, y, n, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    k = tl.arange(0, WIDTH)
    v = tl.load(x + row * n + k, mask=k < n, other=0.0)
    norm = tl.sqrt(tl.sum(v * v, 0))
    tl.store(y + row * n + k, v / tl.maximum(norm, 1e-12), mask=k < n)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        l2norm[(x.shape[0],)](x, y, x.shape[1], WIDTH=triton.next_power_of_2(x.shape[1]))
        return y
