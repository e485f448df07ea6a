"""Mixture-of-experts gate: the k likeliest experts of each token, with weights that sum to one."""

import torch
import torch.nn as nn

TOKENS = 8192
EXPERTS = 64
TOP_K = 6


class Model(nn.Module):
    def __init__(self, top_k):
        super().__init__()
        self.top_k = top_k

    def forward(self, logits):
        weights, indices = torch.topk(torch.softmax(logits, dim=-1), self.top_k, dim=-1)
        return weights / weights.sum(dim=-1, keepdim=True), indices


def get_inputs():
    # Normal quantiles in random order, jittered by less than their distance: no two logits of a row tie, so that the
    # choice of experts and their order have one right answer.
    order = torch.rand(TOKENS, EXPERTS).argsort(dim=-1)
    return [torch.special.ndtri((order + 0.25 + 0.5 * torch.rand(TOKENS, EXPERTS)) / EXPERTS)]


def get_init_inputs():
    return [TOP_K]
