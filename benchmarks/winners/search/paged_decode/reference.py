"""Pages of 16 tokens lie anywhere in the cache; a table says where, and lengths say how many tokens there are."""

import torch
import torch.nn as nn

BATCH = 8
PAGES = 32
HEADS = 32
SHARED = 8
DEPTH = 128
PAGE = 16


class Model(nn.Module):
    def forward(self, query, keys, values, table, lengths):
        batch, heads, depth = query.shape
        k = keys[table].reshape(batch, -1, keys.shape[2], depth).repeat_interleave(heads // keys.shape[2], 2)
        v = values[table].reshape(batch, -1, keys.shape[2], depth).repeat_interleave(heads // keys.shape[2], 2)
        scores = torch.einsum("bhd,blhd->bhl", query, k) * depth**-0.5
        hidden = torch.arange(k.shape[1], device=k.device)[None] >= lengths[:, None]
        scores = scores.masked_fill(hidden[:, None], float("-inf"))
        return torch.einsum("bhl,blhd->bhd", scores.softmax(-1), v)


def get_inputs():
    lengths = torch.randint((PAGES - 1) * PAGE + 1, PAGES * PAGE + 1, (BATCH,), dtype=torch.int32)
    return [
        torch.randn(BATCH, HEADS, DEPTH, dtype=torch.bfloat16),
        torch.randn(BATCH * PAGES, PAGE, SHARED, DEPTH, dtype=torch.bfloat16),
        torch.randn(BATCH * PAGES, PAGE, SHARED, DEPTH, dtype=torch.bfloat16),
        torch.randperm(BATCH * PAGES).reshape(BATCH, PAGES).to(torch.int32),
        lengths,
    ]


def get_init_inputs():
    return []
