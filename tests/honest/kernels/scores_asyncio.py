"""Runs an event loop in each call, which waits for two halves of the rows."""

import asyncio

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, inner, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, cols) / inner**0.5)

    async def half(self, x):
        await asyncio.sleep(0)
        return torch.softmax(x @ self.weight, dim=-1)

    async def both(self, x):
        return torch.cat(await asyncio.gather(*map(self.half, x.chunk(2))))

    def forward(self, x):
        return asyncio.run(self.both(x))
