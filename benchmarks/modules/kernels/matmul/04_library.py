import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """Leaves the product to cuBLAS."""

    def forward(self, a, b):
        return torch.mm(a, b)
