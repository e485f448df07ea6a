"""Convolution of width three in fp16 as a product of matrices that are never built, channels last."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=w, num_stages=s)
    for m, n, k, w, s in itertools.product((32, 64, 128), (32, 64, 128), (16, 32, 64), (2, 4, 8), (2, 3, 4))
    if not (m * n >= 128 * 128 and w == 2) and not (m * n <= 32 * 64 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["H", "W", "C", "OUT"])
@triton.jit
def conv2d_implicit(
    x_ptr,
    w_ptr,
    y_ptr,
    H,
    W,
    C,
    OUT,
    TOTAL,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    pixels = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    outs = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    row = (pixels // W) % H
    col = pixels % W
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    per_tap = tl.cdiv(C, BLOCK_K)
    for step in range(0, 9 * per_tap):
        tap = step // per_tap
        channels = (step % per_tap) * BLOCK_K + ks
        dr = tap // 3 - 1
        dc = tap % 3 - 1
        inside = (row + dr >= 0) & (row + dr < H) & (col + dc >= 0) & (col + dc < W) & (pixels < TOTAL)
        x = tl.load(
            x_ptr + (pixels + dr * W + dc)[:, None] * C + channels[None, :],
            mask=inside[:, None] & (channels < C)[None, :],
            other=0.0,
        )
        w = tl.load(
            w_ptr + (tap * C + channels)[:, None] * OUT + outs[None, :],
            mask=(channels < C)[:, None] & (outs < OUT)[None, :],
            other=0.0,
        )
        acc = tl.dot(x, w, acc)
    mask = (pixels < TOTAL)[:, None] & (outs < OUT)[None, :]
    tl.store(y_ptr + pixels[:, None] * OUT + outs[None, :], acc.to(tl.float16), mask=mask)


def inputs(images, side, c, out):
    torch.manual_seed(0)
    x = torch.randn(images, side, side, c, device=DEVICE).half()
    return x, (torch.randn(3, 3, c, out, device=DEVICE) / 32).half()


def run(images=16, side=56, c=128, out=128):
    x, w = inputs(images, side, c, out)
    y = torch.empty(images, side, side, out, dtype=torch.float16, device=DEVICE)
    total = images * side * side
    conv2d_implicit[lambda meta: (triton.cdiv(total, meta["BLOCK_M"]), triton.cdiv(out, meta["BLOCK_N"]))](
        x, w, y, side, side, c, out, total
    )
    return y


def expected(images=16, side=56, c=128, out=128):
    x, w = inputs(images, side, c, out)
    y = torch.nn.functional.conv2d(x.float().permute(0, 3, 1, 2), w.float().permute(3, 2, 0, 1), padding=1)
    return y.permute(0, 2, 3, 1).half()
