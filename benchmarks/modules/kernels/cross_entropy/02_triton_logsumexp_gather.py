"""A kernel for the logarithm of the sum; torch picks the targets' logits."""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def logsumexp(x, out, n, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    k = tl.arange(0, WIDTH)
    v = tl.load(x + row * n + k, mask=k < n, other=float("-inf")).to(tl.float32)
    top = tl.max(v, 0)
    tl.store(out + row, tl.log(tl.sum(tl.exp(v - top), 0)) + top)


class ModelNew(nn.Module):
    def forward(self, logits, targets):
        rows, n = logits.shape
        lse = torch.empty(rows, device=logits.device, dtype=torch.float32)
        logsumexp[(rows,)](logits, lse, n, WIDTH=triton.next_power_of_2(n), num_warps=16)
        picked = logits.gather(1, targets.unsqueeze(1)).squeeze(1)
        return lse - picked.float()
