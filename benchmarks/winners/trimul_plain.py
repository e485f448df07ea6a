"""Triangle multiplicative update, outgoing, as a module for torch.compile: the mathematics of GPU MODE's `trimul`.

The reference computes in fp32; here products are in fp16, as in the kernels that it stands beside.
"""

import torch
import torch.nn as nn

LENGTH, BATCH, DIM, HIDDEN = 256, 2, 128, 128


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.left_proj, self.right_proj = (nn.Linear(DIM, HIDDEN, bias=False) for _ in range(2))
        self.left_gate, self.right_gate, self.out_gate = (nn.Linear(DIM, HIDDEN, bias=False) for _ in range(3))
        self.to_out_norm = nn.LayerNorm(HIDDEN)
        self.to_out = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x, mask):
        with torch.autocast(x.device.type, torch.float16):
            x = self.norm(x)
            left = self.left_proj(x) * mask[..., None] * self.left_gate(x).sigmoid()
            right = self.right_proj(x) * mask[..., None] * self.right_gate(x).sigmoid()
            out = torch.einsum("... i k d, ... j k d -> ... i j d", left, right)
            return self.to_out(self.to_out_norm(out) * self.out_gate(x).sigmoid()).float()


def get_inputs():
    return [torch.randn(BATCH, LENGTH, LENGTH, DIM), torch.randint(0, 2, (BATCH, LENGTH, LENGTH)).float()]


def get_init_inputs():
    return []
