"""Strassen: seven products of quarters in place of eight."""

import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, a, b):
        n, k, m = a.shape[0] // 2, a.shape[1] // 2, b.shape[1] // 2
        A, B, C, D = a[:n, :k], a[:n, k:], a[n:, :k], a[n:, k:]
        E, F, G, H = b[:k, :m], b[:k, m:], b[k:, :m], b[k:, m:]
        p1, p2, p3, p4 = A @ (F - H), (A + B) @ H, (C + D) @ E, D @ (G - E)
        p5, p6, p7 = (A + D) @ (E + H), (B - D) @ (G + H), (A - C) @ (E + F)
        return torch.cat([torch.cat([p5 + p4 - p2 + p6, p1 + p2], 1), torch.cat([p3 + p4, p1 + p5 - p3 - p7], 1)], 0)
