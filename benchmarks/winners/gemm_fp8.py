"""Product of two fp8 matrices, the second one by its columns, with a scale for each: cuBLAS through torch."""

import torch
import torch.nn as nn

N = 256


class Model(nn.Module):
    def forward(self, a, b, scale_a, scale_b):
        if a.dtype is not torch.float8_e4m3fn:
            return (a @ b.t()) * (scale_a * scale_b)
        return torch._scaled_mm(
            a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16, use_fast_accum=True
        )


def get_inputs():
    a, b = (torch.randn(N, N).to(torch.float8_e4m3fn) for _ in range(2))
    return [a, b, torch.tensor(0.5), torch.tensor(0.25)]


def get_init_inputs():
    return []
