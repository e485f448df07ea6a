"""The most likely token of each row of logits."""

import torch
import torch.nn as nn

ROWS = 16
VOCABULARY = 16384


class Model(nn.Module):
    def forward(self, logits):
        return logits.argmax(-1)


def get_inputs():
    return [torch.stack([torch.randperm(VOCABULARY) for _ in range(ROWS)]).float()]


def get_init_inputs():
    return []
