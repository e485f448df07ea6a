"""A loop over blocks of columns through torch.jit.script, which recompiles itself within its first calls."""

import torch
import torch.nn as nn


@torch.jit.script
def sums(x: torch.Tensor) -> torch.Tensor:
    total = torch.zeros(x.shape[0], device=x.device)
    for start in range(0, x.shape[1], 256):
        total += x[:, start : start + 256].sum(dim=1)
    return total


class ModelNew(nn.Module):
    def forward(self, x):
        return sums(x)
