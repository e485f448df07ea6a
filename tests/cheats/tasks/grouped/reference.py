"""Numbers in the order of an index of their own: integers beside floats."""

import torch
import torch.nn as nn

LENGTH, KINDS = 300_000, 4096


class Model(nn.Module):
    def forward(self, x, index):
        return x[index.argsort(stable=True)]


def get_inputs():
    return [torch.rand(LENGTH), torch.randint(0, KINDS, (LENGTH,))]


def get_init_inputs():
    return []
