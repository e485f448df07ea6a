import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def layernorm_fwd(X, Y, W, B, N, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE)
    mask = cols < N
    x = tl.load(X + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    xc = tl.where(mask, x - mean, 0.0)
    var = tl.sum(xc * xc, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    w = tl.load(W + cols, mask=mask)
    b = tl.load(B + cols, mask=mask)
    tl.store(Y + row * N + cols, xc * rstd * w + b, mask=mask)


class ModelNew(nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(cols) + 0.5)
        self.bias = nn.Parameter(torch.randn(cols))
        self.eps = 1e-5

    def forward(self, x):
        M, N = x.shape
        y = torch.empty_like(x)
        layernorm_fwd[(M,)](x, y, self.weight, self.bias, N, self.eps, BLOCK_SIZE=triton.next_power_of_2(N), num_warps=8)
        return y
