"""The state of each head decays, unlearns what it held for the key, learns the value, and answers the query."""

import torch
import torch.nn as nn

BATCH = 8
HEADS = 16
KEY = 128
VALUE = 128


class Model(nn.Module):
    def forward(self, query, key, value, decay, beta, state):
        q, k, v = (t.to(state.dtype) for t in (query, key, value))
        k = k * torch.rsqrt(k.square().sum(-1, keepdim=True) + 1e-6)
        q = q * torch.rsqrt(q.square().sum(-1, keepdim=True) + 1e-6) * q.shape[-1] ** -0.5
        kept = state * decay.exp()[..., None, None]
        held = (kept * k[..., None]).sum(-2)
        learnt = kept + k[..., None] * ((v - held) * beta[..., None])[..., None, :]
        return (learnt * q[..., None]).sum(-2).to(query.dtype), learnt


def get_inputs():
    heads = (BATCH, HEADS)
    return [
        torch.randn(*heads, KEY, dtype=torch.bfloat16),
        torch.randn(*heads, KEY, dtype=torch.bfloat16),
        torch.randn(*heads, VALUE, dtype=torch.bfloat16),
        -torch.rand(*heads),
        torch.rand(*heads),
        torch.randn(*heads, KEY, VALUE),
    ]


def get_init_inputs():
    return []
