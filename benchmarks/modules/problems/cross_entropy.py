"""Cross entropy of bf16 logits, a loss per row in fp32."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS = 4096
VOCABULARY = 16384


class Model(nn.Module):
    def forward(self, logits, targets):
        return F.cross_entropy(logits.float(), targets, reduction="none")


def get_inputs():
    return [torch.randn(ROWS, VOCABULARY).mul(2).to(torch.bfloat16), torch.randint(0, VOCABULARY, (ROWS,))]


def get_init_inputs():
    return []
