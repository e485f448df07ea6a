import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def bmv(a, x, y, M, K, BM: tl.constexpr, BK: tl.constexpr):
    batch = tl.program_id(1)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    acc = tl.zeros((BM,), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        t = tl.load(a + batch * M * K + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        v = tl.load(x + batch * K + k, mask=k < K, other=0.0)
        acc += tl.sum(t * v[None, :], axis=1)
    tl.store(y + batch * M + m, acc, mask=m < M)


class ModelNew(nn.Module):
    def forward(self, a, x):
        batch, M, K = a.shape
        y = torch.empty((batch, M), device=a.device, dtype=a.dtype)
        bmv[(triton.cdiv(M, 32), batch)](a, x, y, M, K, BM=32, BK=128)
        return y
