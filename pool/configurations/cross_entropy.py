"""Cross entropy of wide logits with its gradient, a program per token."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK": b}, num_warps=w, num_stages=s)
    for b, w, s in itertools.product((256, 512, 1024, 2048, 4096, 8192, 16384), (2, 4, 8, 16, 32), (1, 2, 4))
]


@triton.autotune(configs=CONFIGS, key=["V"])
@triton.jit
def cross_entropy(x_ptr, target_ptr, loss_ptr, dx_ptr, V, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * V
    dx_ptr += row * V
    target = tl.load(target_ptr + row)
    cols = tl.arange(0, BLOCK)
    top = float("-inf")
    total = 0.0
    for start in range(0, V, BLOCK):
        x = tl.load(x_ptr + start + cols, mask=start + cols < V, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(top, tl.max(x))
        total = total * tl.exp(top - higher) + tl.sum(tl.exp(x - higher))
        top = higher
    tl.store(loss_ptr + row, top + tl.log(total) - tl.load(x_ptr + target).to(tl.float32))
    for start in range(0, V, BLOCK):
        x = tl.load(x_ptr + start + cols, mask=start + cols < V, other=0.0).to(tl.float32)
        p = tl.exp(x - top) / total
        p = tl.where(start + cols == target, p - 1.0, p)
        tl.store(dx_ptr + start + cols, (p * scale).to(tl.bfloat16), mask=start + cols < V)


def inputs(tokens, v):
    torch.manual_seed(0)
    return torch.randn(tokens, v, device=DEVICE).bfloat16(), torch.randint(v, (tokens,), device=DEVICE)


def run(tokens=2048, v=65536):
    x, target = inputs(tokens, v)
    loss, dx = torch.empty(tokens, device=DEVICE), torch.empty_like(x)
    cross_entropy[(tokens,)](x, target, loss, dx, v, 1.0)
    return loss, dx


def expected(tokens=2048, v=65536):
    x, target = inputs(tokens, v)
    x = x.float()
    p = torch.softmax(x, 1)
    p[torch.arange(tokens, device=DEVICE), target] -= 1
    return torch.nn.functional.cross_entropy(x, target, reduction="none"), p.bfloat16()
