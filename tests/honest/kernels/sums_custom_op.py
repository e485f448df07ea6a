"""An operator of its own, registered with torch.library."""

import torch
import torch.nn as nn


@torch.library.custom_op("honest_sums::sums", mutates_args=())
def sums(x: torch.Tensor) -> torch.Tensor:
    return x.sum(dim=-1)


class ModelNew(nn.Module):
    def forward(self, x):
        return sums(x)
