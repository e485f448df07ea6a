"""Keys of some sequences, gathered from the pages of a cache."""

import torch
import torch.nn as nn

SEQUENCES = 32
PAGES = 1024


class Model(nn.Module):
    def forward(self, cache, table):
        return cache[table].flatten(1, 2)


def get_inputs():
    return [torch.randn(PAGES, 16, 128), torch.randint(0, PAGES, (SEQUENCES, 16))]


def get_init_inputs():
    return []
