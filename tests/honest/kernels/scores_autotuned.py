"""Times three ways in its first call and goes on with the fastest."""

import time

import torch
import torch.nn as nn


def whole(x, weight):
    return torch.softmax(x @ weight, dim=-1)


def in_blocks(x, weight):
    return torch.cat([torch.softmax(rows @ weight, dim=-1) for rows in x.chunk(4)])


def by_logarithms(x, weight):
    return torch.log_softmax(torch.mm(x, weight), dim=-1).exp_()


class ModelNew(nn.Module):
    def __init__(self, inner, cols):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inner, cols) / inner**0.5)
        self.way = None

    def forward(self, x):
        if self.way is None:
            self.way = min((whole, in_blocks, by_logarithms), key=lambda way: self.seconds(way, x))
        return self.way(x, self.weight)

    def seconds(self, way, x):
        times = []
        for _ in range(5):
            start = time.perf_counter()
            float(way(x, self.weight)[0, 0])
            times.append(time.perf_counter() - start)
        return min(times)
