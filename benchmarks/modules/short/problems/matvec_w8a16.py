"""Product of an int8 matrix with a scale per row, and a bf16 vector."""

import torch
import torch.nn as nn

OUTER = 4096
INNER = 4096


class Model(nn.Module):
    def __init__(self, outer, inner):
        super().__init__()
        self.register_buffer("weight", torch.randint(-127, 128, (outer, inner), dtype=torch.int8))
        self.scale = nn.Parameter(torch.rand(outer) * 0.01 + 0.001)

    def forward(self, x):
        product = torch.mv(self.weight.to(self.scale.dtype), x.to(self.scale.dtype))
        return product * self.scale


def get_inputs():
    return [torch.randn(INNER).to(torch.bfloat16)]


def get_init_inputs():
    return [OUTER, INNER]
