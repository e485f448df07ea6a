"""Layer normalisation with the variance about the mean, in a pass of its own."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        off = x - x.mean(dim=-1, keepdim=True)
        return off * (off.square().mean(dim=-1, keepdim=True) + 1e-5).rsqrt()
