"""Layer normalisation in two passes."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
        scale = torch.rsqrt(variance + 1e-5)
        return torch.addcmul(-mean * scale, x, scale)
