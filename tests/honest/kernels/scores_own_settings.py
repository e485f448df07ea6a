"""Chooses its number of threads and stops the garbage collector within its call, and puts both back."""

import gc

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, inner, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, cols) / inner**0.5)

    def forward(self, x):
        threads = torch.get_num_threads()
        torch.set_num_threads(max(1, threads // 2))
        gc.disable()
        try:
            return torch.softmax(x @ self.weight, dim=-1)
        finally:
            gc.enable()
            torch.set_num_threads(threads)
