"""Recurrence h = a h + x over time, by chunks with an associative scan, for many channels side by side, in fp32."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_T": t, "BLOCK_D": d}, num_warps=w, num_stages=s)
    for t, d, w, s in itertools.product((16, 32, 64, 128, 256), (4, 8, 16, 32, 64), (1, 2, 4, 8), (1, 2))
    if 256 <= t * d <= 8192 and not (t * d >= 4096 and w == 1) and not (t * d <= 512 and w == 8)
]


@triton.jit
def _combine(a1, x1, a2, x2):
    return a1 * a2, a2 * x1 + x2


@triton.autotune(configs=CONFIGS, key=["T", "D"])
@triton.jit
def selective_scan(a_ptr, x_ptr, h_ptr, T, D, BLOCK_T: tl.constexpr, BLOCK_D: tl.constexpr):
    pid_d = tl.program_id(0)
    batch = tl.program_id(1).to(tl.int64)
    steps = tl.arange(0, BLOCK_T)
    dims = pid_d * BLOCK_D + tl.arange(0, BLOCK_D)
    state = tl.zeros((BLOCK_D,), dtype=tl.float32)
    for start in range(0, T, BLOCK_T):
        place = (batch * T + start + steps)[:, None] * D + dims[None, :]
        mask = (start + steps < T)[:, None] & (dims < D)[None, :]
        a = tl.load(a_ptr + place, mask=mask, other=1.0)
        x = tl.load(x_ptr + place, mask=mask, other=0.0)
        x += tl.where((steps == 0)[:, None], a * state[None, :], 0.0)
        _, h = tl.associative_scan((a, x), 0, _combine)
        tl.store(h_ptr + place, h, mask=mask)
        state = tl.sum(tl.where((steps == BLOCK_T - 1)[:, None], h, 0.0), 0)


def inputs(batch, t, d):
    torch.manual_seed(0)
    a = torch.rand(batch, t, d, device=DEVICE) * 0.2 + 0.8
    return a, torch.randn(batch, t, d, device=DEVICE)


def run(batch=8, t=4096, d=2048):
    a, x = inputs(batch, t, d)
    h = torch.empty_like(x)
    selective_scan[lambda meta: (triton.cdiv(d, meta["BLOCK_D"]), batch)](a, x, h, t, d)
    return h


def expected(batch=8, t=4096, d=2048):
    a, x = inputs(batch, t, d)
    h, state = torch.empty_like(x), torch.zeros(batch, d, device=DEVICE)
    for step in range(t):
        state = a[:, step] * state + x[:, step]
        h[:, step] = state
    return h
