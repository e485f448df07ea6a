"""Leaves thousands of small objects in circles behind in each call, for the garbage collector to find later."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        parts = []
        for row in x.chunk(64):
            node = {"rows": row, "sums": row.sum(dim=-1), "notes": [str(i) for i in range(50)]}
            node["self"] = node
            parts.append(node)
        return torch.cat([node["sums"] for node in parts])
