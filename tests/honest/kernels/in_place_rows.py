"""Writes to its input row block by row block, as the reference does whole, and returns that input."""

import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        for rows in x.chunk(8):
            rows.clamp_(max=1.0).clamp_(min=-1.0)
        return x
