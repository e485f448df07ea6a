"""A stack of Llama's decoder blocks (RMSNorm, rotary embedding, grouped queries, SwiGLU), prefill."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, WIDTH, HEADS, KEYS, HIDDEN, LAYERS = 1, 2048, 4096, 32, 8, 14336, 4
HEAD = WIDTH // HEADS
DTYPE = torch.bfloat16


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * y.to(x.dtype)


def rotated(x):
    one, other = x.chunk(2, -1)
    return torch.cat((-other, one), -1)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.between = Norm(), Norm()
        self.q = nn.Linear(WIDTH, WIDTH, bias=False)
        self.k = nn.Linear(WIDTH, KEYS * HEAD, bias=False)
        self.v = nn.Linear(WIDTH, KEYS * HEAD, bias=False)
        self.o = nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x, cos, sin):
        h = self.before(x)
        q, k, v = (f(h).view(*x.shape[:2], -1, HEAD).transpose(1, 2) for f in (self.q, self.k, self.v))
        q = q * cos + rotated(q) * sin
        k = k * cos + rotated(k) * sin
        k, v = (t.repeat_interleave(HEADS // KEYS, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(x.shape))
        h = self.between(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = Norm()
        powers = torch.arange(0, HEAD, 2).float() / HEAD
        self.register_buffer("frequencies", 5e5**-powers, persistent=False)
        self.to(DTYPE)

    def forward(self, x):
        angles = torch.outer(torch.arange(x.shape[1], device=x.device).float(), self.frequencies.float())
        angles = torch.cat((angles, angles), -1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH, dtype=DTYPE)]


def get_init_inputs():
    return []
