"""Attention pooling: a learned query weighs the tokens of each sequence."""

import torch
import torch.nn as nn

BATCH = 64
TOKENS = 2048
WIDTH = 512


class Model(nn.Module):
    def forward(self, x, query):
        weights = torch.softmax((x @ query).float() * WIDTH**-0.5, dim=-1)
        return torch.einsum("bt,btd->bd", weights, x.float())


def get_inputs():
    return [torch.randn(BATCH, TOKENS, WIDTH, dtype=torch.bfloat16), torch.randn(WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return []
