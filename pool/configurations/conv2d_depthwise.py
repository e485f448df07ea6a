"""Depthwise convolution of 3 by 3 over images with channels last, in fp16."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_HW": p, "BLOCK_C": c}, num_warps=w, num_stages=s)
    for p, c, w, s in itertools.product((4, 8, 16, 32, 64, 128), (16, 32, 64, 128, 256), (1, 2, 4, 8), (1, 2))
    if 256 <= p * c <= 16384 and not (p * c >= 8192 and w == 1) and not (p * c <= 512 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["H", "W", "C"])
@triton.jit
def conv2d_depthwise(
    x_ptr,
    w_ptr,
    bias_ptr,
    y_ptr,
    H,
    W,
    C,
    KH: tl.constexpr,
    KW: tl.constexpr,
    BLOCK_HW: tl.constexpr,
    BLOCK_C: tl.constexpr,
):
    pid_hw = tl.program_id(0)
    pid_c = tl.program_id(1)
    image = tl.program_id(2).to(tl.int64)
    hw = pid_hw * BLOCK_HW + tl.arange(0, BLOCK_HW)
    c = pid_c * BLOCK_C + tl.arange(0, BLOCK_C)
    row = hw // W
    col = hw % W
    mask_c = c < C
    acc = tl.zeros((BLOCK_HW, BLOCK_C), dtype=tl.float32)
    for i in tl.static_range(KH):
        for j in tl.static_range(KW):
            r = row + i - KH // 2
            s = col + j - KW // 2
            inside = (r >= 0) & (r < H) & (s >= 0) & (s < W)
            x = tl.load(
                x_ptr + ((image * H + r) * W + s)[:, None] * C + c[None, :],
                mask=inside[:, None] & mask_c[None, :],
                other=0.0,
            )
            w = tl.load(w_ptr + (i * KW + j) * C + c, mask=mask_c, other=0.0)
            acc += x.to(tl.float32) * w.to(tl.float32)[None, :]
    acc += tl.load(bias_ptr + c, mask=mask_c, other=0.0).to(tl.float32)[None, :]
    y = y_ptr + (image * H * W + hw)[:, None] * C + c[None, :]
    tl.store(y, acc.to(tl.float16), mask=(hw < H * W)[:, None] & mask_c[None, :])


def inputs(n, h, w, c):
    torch.manual_seed(0)
    x = torch.randn(n, h, w, c, device=DEVICE).half()
    return x, torch.randn(3, 3, c, device=DEVICE).half(), torch.randn(c, device=DEVICE).half()


def run(n=64, h=56, w=56, c=384):
    x, weight, bias = inputs(n, h, w, c)
    y = torch.empty_like(x)
    conv2d_depthwise[lambda meta: (triton.cdiv(h * w, meta["BLOCK_HW"]), triton.cdiv(c, meta["BLOCK_C"]), n)](
        x, weight, bias, y, h, w, c, 3, 3
    )
    return y


def expected(n=64, h=56, w=56, c=384):
    x, weight, bias = (t.float() for t in inputs(n, h, w, c))
    y = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), weight.permute(2, 0, 1)[:, None], bias, padding=1, groups=c)
    return y.permute(0, 2, 3, 1).half()
