"""Has a pool of Python threads, which stays, compute four parts of the rows."""

from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, inner, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, cols) / inner**0.5)
        self.pool = ThreadPoolExecutor(2)

    def part(self, x):
        with torch.no_grad():
            return torch.softmax(x @ self.weight, dim=-1)

    def forward(self, x):
        return torch.cat(list(self.pool.map(self.part, x.chunk(4))))
