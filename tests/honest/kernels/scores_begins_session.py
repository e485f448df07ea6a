"""Has a helper process, in a session of its own as careful programs start them, tell it the page size once."""

import subprocess
import sys

import torch
import torch.nn as nn

ASKING = [sys.executable, "-S", "-c", "import os; print(os.sysconf('SC_PAGE_SIZE'))"]


class ModelNew(nn.Module):
    def __init__(self, inner, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, cols) / inner**0.5)
        page = int(subprocess.run(ASKING, start_new_session=True, capture_output=True, check=True).stdout)
        self.rows = max(1, page // 64)

    def forward(self, x):
        return torch.cat([torch.softmax(rows @ self.weight, dim=-1) for rows in x.split(self.rows)])
