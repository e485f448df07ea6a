"""Product of two matrices."""

import torch
import torch.nn as nn

M = 512
N = 512
K = 512
DTYPE = "float32"


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    dtype = getattr(torch, DTYPE)
    return [torch.randn(M, K, dtype=dtype), torch.randn(K, N, dtype=dtype)]


def get_init_inputs():
    return []
