import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def affine(x, scale, shift, y, n, plane, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ok = at < n
    p = at // plane
    v = tl.load(x + at, mask=ok) * tl.load(scale + p, mask=ok) + tl.load(shift + p, mask=ok)
    tl.store(y + at, v, mask=ok)


class ModelNew(nn.Module):
    """One factor and one summand per plane are made by torch; a kernel applies them."""

    def __init__(self, channels, groups):
        super().__init__()
        self.groups = groups
        self.weight = nn.Parameter(torch.rand(channels) + 0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x):
        B, C, H, W = x.shape
        variance, mean = torch.var_mean(x.view(B, self.groups, -1), dim=2, correction=0, keepdim=True)
        rstd = torch.rsqrt(variance + 1e-5)
        per_group = self.weight.view(1, self.groups, -1)
        scale = (rstd * per_group).contiguous()
        shift = (self.bias.view(1, self.groups, -1) - mean * scale).contiguous()
        y = torch.empty_like(x)
        affine[(triton.cdiv(x.numel(), 2048),)](x, scale, shift, y, x.numel(), H * W, BLOCK=2048)
        return y
