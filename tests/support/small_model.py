"""A model with repeated blocks, for tests: views across cuts, a mask, constants, a buffer."""

TEXT = """
import torch
import torch.nn.functional as F
from torch import nn

WIDTH, LENGTH, LAYERS = 32, 16, 2


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, bias):
        q, k, v = self.qkv(self.norm(x)).view(*x.shape[:2], 3, 4, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        y = F.relu(self.out(y.transpose(1, 2).reshape(x.shape)), inplace=True)
        return x + y * torch.tensor([2.0, 0.5]).repeat(WIDTH // 2)


class Model(nn.Module):
    def __init__(self, layers=LAYERS):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(layers))
        self.register_buffer("scale", torch.full((WIDTH,), 1.5), persistent=False)
        self.to(torch.float32)

    def forward(self, x, more):
        bias = torch.zeros(LENGTH, LENGTH).masked_fill(torch.ones(LENGTH, LENGTH).triu(1) > 0, -torch.inf)
        for layer in self.layers:
            x = layer(x, bias)
        return {"x": x * self.scale, "sorted": more["y"].sort(-1).values}


def get_inputs():
    return [torch.randn(2, LENGTH, WIDTH), {"y": torch.rand(3, 8)}]


def get_init_inputs():
    return [LAYERS]
"""

FLIPPED = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(256))

    def forward(self, x):
        x = x * self.weight
        for _ in range(16):
            x = x.flip(-1)
        return x.tanh()


def get_inputs():
    return [torch.randn(1024, 256)]


def get_init_inputs():
    return []
"""
"""A model that most of its operations leave as it was: a kernel without them is faster on any machine."""
