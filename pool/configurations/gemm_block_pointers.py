"""Matrix product in bf16 of a row-major and a column-major operand, by block pointers, with bias and GELU."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}, num_warps=w, num_stages=s)
    for m, n, k, w, s in itertools.product((32, 64, 128), (32, 64, 128, 256), (32, 64, 128), (4, 8), (2, 3, 4))
    if (m + n) * k * s * 2 <= 220_000 and not (m * n >= 128 * 256 and w == 4) and not (m * n <= 32 * 32 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def gemm_bias_gelu(
    a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    pid_n = tl.program_id(0)
    pid_m = tl.program_id(1)
    a = tl.make_block_ptr(a_ptr, (M, K), (K, 1), (pid_m * BLOCK_M, 0), (BLOCK_M, BLOCK_K), (1, 0))
    b = tl.make_block_ptr(b_ptr, (K, N), (1, K), (0, pid_n * BLOCK_N), (BLOCK_K, BLOCK_N), (0, 1))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        left = tl.load(a, boundary_check=(0, 1), padding_option="zero")
        right = tl.load(b, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(left, right, acc)
        a = tl.advance(a, (0, BLOCK_K))
        b = tl.advance(b, (BLOCK_K, 0))
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    x = acc + tl.load(bias_ptr + cols, mask=cols < N, other=0.0)[None, :]
    x = 0.5 * x * (1 + tl.erf(x * 0.7071067811865476))
    c = tl.make_block_ptr(c_ptr, (M, N), (N, 1), (pid_m * BLOCK_M, pid_n * BLOCK_N), (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(c, x.to(tl.bfloat16), boundary_check=(0, 1))


def inputs(m, n, k):
    torch.manual_seed(0)
    a = (torch.randn(m, k, device=DEVICE) / 8).bfloat16()
    b = (torch.randn(n, k, device=DEVICE) / 8).bfloat16()
    return a, b, torch.randn(n, device=DEVICE)


def run(m=2048, n=8192, k=2048):
    a, b, bias = inputs(m, n, k)
    c = torch.empty(m, n, dtype=torch.bfloat16, device=DEVICE)
    gemm_bias_gelu[lambda meta: (triton.cdiv(n, meta["BLOCK_N"]), triton.cdiv(m, meta["BLOCK_M"]))](
        a, b, bias, c, m, n, k
    )
    return c


def expected(m=2048, n=8192, k=2048):
    a, b, bias = inputs(m, n, k)
    return torch.nn.functional.gelu(a.float() @ b.float().T + bias).bfloat16()
