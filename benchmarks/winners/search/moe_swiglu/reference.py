"""Each expert takes its rows of the tokens through a gated linear layer (SwiGLU): a grouped product."""

import torch
import torch.nn as nn

TOKENS = 4096
EXPERTS = 16
ROWS = 1024
WIDE = 2048
OUT = 1408


class Model(nn.Module):
    def forward(self, x, rows, gate, up):
        taken = x[rows]
        return nn.functional.silu(torch.bmm(taken, gate.transpose(1, 2))) * torch.bmm(taken, up.transpose(1, 2))


def get_inputs():
    return [
        torch.randn(TOKENS, WIDE, dtype=torch.bfloat16),
        torch.randint(0, TOKENS, (EXPERTS, ROWS), dtype=torch.int32),
        torch.randn(EXPERTS, OUT, WIDE, dtype=torch.bfloat16) * WIDE**-0.5,
        torch.randn(EXPERTS, OUT, WIDE, dtype=torch.bfloat16) * WIDE**-0.5,
    ]


def get_init_inputs():
    return []
