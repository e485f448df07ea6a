"""Blocks of Mamba-2: projections, a causal depthwise convolution, and the state space model in chunks, as its paper's
minimal listing does it (arXiv 2405.21060, listing 1).
"""

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, WIDTH, HEAD, STATE, CHUNK, LAYERS = 4, 2048, 1024, 64, 128, 64, 4
INNER = 2 * WIDTH
HEADS = INNER // HEAD
DTYPE = torch.bfloat16


def sums(a):
    """Return sums of stretches: [..., i, j] is the sum of a[..., j+1 … i], -inf above the diagonal."""
    total = a.cumsum(-1)
    lower = torch.ones(a.shape[-1], a.shape[-1], dtype=torch.bool, device=a.device).tril()
    return (total[..., :, None] - total[..., None, :]).masked_fill(~lower, -torch.inf)


def scanned(x, a, b, c):
    """Return the outputs of the state space model: x is [batch, length, head, p], a [batch, length, head]."""
    batch, length = x.shape[:2]
    x, a, b, c = (t.reshape(batch, length // CHUNK, CHUNK, *t.shape[2:]) for t in (x, a, b, c))
    a = a.permute(0, 3, 1, 2)
    total = a.cumsum(-1)
    decay = sums(a).exp()
    inside = torch.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c, b, decay, x)
    states = torch.einsum("bcln,bhcl,bclhp->bchpn", b, (total[..., -1:] - total).exp(), x)
    states = torch.cat((torch.zeros_like(states[:, :1]), states), 1)
    between = sums(F.pad(total[..., -1], (1, 0))).exp()
    states = torch.einsum("bhzc,bchpn->bzhpn", between, states)[:, :-1]
    carried = torch.einsum("bcln,bchpn,bhcl->bclhp", c, states, total.exp())
    return (inside + carried).reshape(batch, length, *x.shape[3:])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.gated = nn.RMSNorm(WIDTH, eps=1e-5), nn.RMSNorm(INNER, eps=1e-5)
        self.into = nn.Linear(WIDTH, 2 * INNER + 2 * STATE + HEADS, bias=False)
        self.conv = nn.Conv1d(INNER + 2 * STATE, INNER + 2 * STATE, 4, groups=INNER + 2 * STATE, padding=3)
        self.out = nn.Linear(INNER, WIDTH, bias=False)
        self.step, self.rate = nn.Parameter(torch.rand(HEADS) - 4), nn.Parameter(torch.rand(HEADS))
        self.skip = nn.Parameter(torch.ones(HEADS))

    def forward(self, x):
        z, inner, dt = self.into(self.norm(x)).split((INNER, INNER + 2 * STATE, HEADS), -1)
        inner = F.silu(self.conv(inner.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2))
        y, b, c = inner.split((INNER, STATE, STATE), -1)
        y, b, c = y.reshape(*x.shape[:2], HEADS, HEAD).float(), b.float(), c.float()
        dt = F.softplus(dt.float() + self.step.float())
        scan = scanned(y * dt[..., None], -self.rate.float().exp() * dt, b, c)
        y = (scan + self.skip.float()[:, None] * y).reshape(*x.shape[:2], INNER).to(x.dtype)
        return x + self.out(self.gated(y * F.silu(z)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(LAYERS))
        self.to(DTYPE)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def get_inputs():
    return [torch.randn(BATCH, LENGTH, WIDTH, dtype=DTYPE)]


def get_init_inputs():
    return []
