import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bn_apply(x, mean, var, w, b, y, n, channels, plane, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = at < n
    c = at // plane % channels
    v = (tl.load(x + at, mask=ok) - tl.load(mean + c, mask=ok)) * tl.rsqrt(tl.load(var + c, mask=ok) + eps)
    tl.store(y + at, v * tl.load(w + c, mask=ok) + tl.load(b + c, mask=ok), mask=ok)


class ModelNew(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        var, mean = torch.var_mean(x, dim=(0, 2, 3), correction=0)
        y = torch.empty_like(x)
        bn_apply[(triton.cdiv(x.numel(), 1024),)](
            x, mean, var, self.weight, self.bias, y, x.numel(), x.shape[1], x.shape[2] * x.shape[3], 1e-5, BLOCK=1024
        )
        return y
