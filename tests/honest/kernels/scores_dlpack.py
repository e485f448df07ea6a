"""Takes the input to NumPy and back by DLPack, which copies nothing."""

import numpy as np
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, inner, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, cols) / inner**0.5)

    def forward(self, x):
        array = np.from_dlpack(x)
        return torch.softmax(torch.from_dlpack(array) @ self.weight, dim=-1)
