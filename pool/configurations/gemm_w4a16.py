"""Matrix product of fp16 activations with weights of four bits, scales and zero points in groups along K."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GROUP = 128
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=w, num_stages=s)
    for m, n, k, w, s in itertools.product((16, 32, 64), (32, 64, 128, 256), (32, 64, 128), (2, 4, 8), (2, 3, 4))
    if not (m * n >= 64 * 256 and w == 2) and not (m * n <= 16 * 64 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def gemm_w4a16(
    x_ptr,
    w_ptr,
    scale_ptr,
    zero_ptr,
    out_ptr,
    M,
    N,
    K,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    pid_m = tl.program_id(0)
    pid_n = tl.program_id(1)
    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    x = x_ptr + (rows % M)[:, None] * K + ks[None, :]
    w = w_ptr + (ks // 8)[:, None] * N + cols[None, :]
    shift = ((ks % 8) * 4)[:, None]
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        packed = tl.load(w)
        scale = tl.load(scale_ptr + (k // GROUP) * N + cols)
        zero = tl.load(zero_ptr + (k // GROUP) * N + cols)
        nibble = (packed >> shift) & 15
        weight = (nibble.to(tl.float16) - zero[None, :]) * scale[None, :]
        acc = tl.dot(tl.load(x), weight, acc)
        x += BLOCK_K
        w += (BLOCK_K // 8) * N
    out = out_ptr + rows[:, None] * N + cols[None, :]
    tl.store(out, acc.to(tl.float16), mask=rows[:, None] < M)


def inputs(m, n, k):
    torch.manual_seed(0)
    x = (torch.randn(m, k, device=DEVICE) / 8).half()
    w = torch.randint(-(2**31), 2**31 - 1, (k // 8, n), dtype=torch.int32, device=DEVICE)
    scale = (torch.rand(k // GROUP, n, device=DEVICE) / 16).half()
    return x, w, scale, torch.randint(0, 16, (k // GROUP, n), device=DEVICE).half()


def run(m=16, n=8192, k=8192):
    x, w, scale, zero = inputs(m, n, k)
    out = torch.empty(m, n, dtype=torch.float16, device=DEVICE)
    gemm_w4a16[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]), triton.cdiv(n, meta["BLOCK_N"]))](
        x, w, scale, zero, out, m, n, k, GROUP
    )
    return out


def expected(m=16, n=8192, k=8192):
    x, w, scale, zero = inputs(m, n, k)
    shifts = torch.arange(8, dtype=torch.int32, device=DEVICE)[None, :, None] * 4
    nibbles = ((w[:, None, :] >> shifts) & 15).reshape(k, n).half()
    weight = (nibbles - zero.repeat_interleave(GROUP, 0)) * scale.repeat_interleave(GROUP, 0)
    return (x.float() @ weight.float()).half()
