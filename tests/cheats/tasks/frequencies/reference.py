"""How often each number occurs: integers, which no judge can shrink or shift without breaking what they mean."""

import torch
import torch.nn as nn

LENGTH, KINDS = 2_000_000, 4096


class Model(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.kinds = kinds

    def forward(self, x):
        return torch.bincount(x, minlength=self.kinds)


def get_inputs():
    return [torch.randint(0, KINDS, (LENGTH,))]


def get_init_inputs():
    return [KINDS]
