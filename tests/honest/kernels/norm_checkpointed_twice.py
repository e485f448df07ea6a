"""A training step that computes each half of its rows again for the backward pass, by reentrant checkpoints."""

import torch
import torch.nn as nn
import torch.utils.checkpoint
from torch.utils.checkpoint import checkpoint


class ModelNew(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.randn(size))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight

    def forward(self, x):
        return torch.cat([checkpoint(self._norm, part, use_reentrant=False) for part in x.chunk(2)])
