import torch
import torch.nn as nn


class ModelNew(nn.Module):
    """cuBLAS with the weight transposed as a view, and the bias in its epilogue."""

    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outer, inner) / inner**0.5).to(torch.bfloat16))
        self.bias = nn.Parameter(torch.randn(outer).to(torch.bfloat16))

    def forward(self, x):
        return torch.addmm(self.bias, x, self.weight.t())
