"""Blocks of a diffusion transformer (DiT-XL): attention and MLP, each modulated by the conditioning."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, WIDTH, HEADS, LAYERS = 16, 256, 1152, 16, 6
DTYPE = torch.bfloat16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before = nn.LayerNorm(WIDTH, elementwise_affine=False, eps=1e-6)
        self.between = nn.LayerNorm(WIDTH, elementwise_affine=False, eps=1e-6)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.modulation = nn.Linear(WIDTH, 6 * WIDTH)

    def forward(self, x, c):
        parts = self.modulation(F.silu(c)).unsqueeze(1).chunk(6, -1)
        shift, scale, gate, shift2, scale2, gate2 = parts
        h = self.before(x) * (1 + scale) + shift
        q, k, v = self.qkv(h).view(*x.shape[:2], 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        x = x + gate * self.out(y)
        h = self.between(x) * (1 + scale2) + shift2
        return x + gate2 * self.down(F.gelu(self.up(h), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.to(DTYPE)

    def forward(self, x, c):
        for layer in self.layers:
            x = layer(x, c)
        return x


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH, dtype=DTYPE), torch.randn(BATCH, WIDTH, dtype=DTYPE)]


def get_init_inputs():
    return []
