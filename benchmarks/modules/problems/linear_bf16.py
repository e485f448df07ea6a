"""Linear layer in bf16."""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS = 4096
INNER = 2048
OUTER = 4096


class Model(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = nn.Parameter((torch.randn(outer, inner) / inner**0.5).to(torch.bfloat16))
        self.bias = nn.Parameter(torch.randn(outer).to(torch.bfloat16))

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


def get_inputs():
    return [torch.randn(TOKENS, INNER).to(torch.bfloat16)]


def get_init_inputs():
    return [INNER, OUTER]
