"""Splits each operand into three bf16 parts and multiplies all that matters: as exact as fp32."""

import torch
import torch.nn as nn


def parts(a):
    out = []
    for _ in range(3):
        h = a.to(torch.bfloat16).float()
        out.append(h)
        a = a - h
    return out


class ModelNew(nn.Module):
    def forward(self, x, y):
        a, b = parts(x), parts(y)
        return a[0] @ b[0] + (a[0] @ b[1] + a[1] @ b[0]) + (a[1] @ b[1] + a[0] @ b[2] + a[2] @ b[0])
