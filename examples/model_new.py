"""A candidate for problem.py as a KernelBench module: one pass less over memory than the reference."""

import torch.nn as nn
import torch.nn.functional as F


class ModelNew(nn.Module):
    """Takes what Model takes and returns what Model returns."""

    def forward(self, x, gate):
        """Return swish(x) * gate."""
        return F.silu(x).mul_(gate)
