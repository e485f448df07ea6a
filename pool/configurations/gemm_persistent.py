"""Matrix product in fp16 by as many programs as there are multiprocessors, each of which takes tiles in turn."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
PROCESSORS = torch.cuda.get_device_properties(0).multi_processor_count if DEVICE == "cuda" else 4
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8, "WAVES": v}, num_warps=w, num_stages=s)
    for m, n, k, v, w, s in itertools.product((64, 128), (64, 128, 256), (32, 64, 128), (1, 2), (4, 8), (2, 3, 4))
    if (m + n) * k * s * 2 <= 220_000 and not (m * n >= 128 * 256 and w == 4)
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def gemm_persistent(
    a_ptr,
    b_ptr,
    c_ptr,
    M,
    N,
    K,
    PROCESSORS,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr,
    WAVES: tl.constexpr,
):
    num_m = tl.cdiv(M, BLOCK_M)
    num_n = tl.cdiv(N, BLOCK_N)
    ks = tl.arange(0, BLOCK_K)
    for tile in range(tl.program_id(0), num_m * num_n, PROCESSORS * WAVES):
        first_m = (tile // (GROUP_M * num_n)) * GROUP_M
        size_m = min(num_m - first_m, GROUP_M)
        pid_m = first_m + (tile % (GROUP_M * num_n)) % size_m
        pid_n = (tile % (GROUP_M * num_n)) // size_m
        rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
        a = a_ptr + (rows % M)[:, None] * K + ks[None, :]
        b = b_ptr + ks[:, None] * N + (cols % N)[None, :]
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in range(0, tl.cdiv(K, BLOCK_K)):
            left = K - k * BLOCK_K
            acc = tl.dot(
                tl.load(a, mask=ks[None, :] < left, other=0.0), tl.load(b, mask=ks[:, None] < left, other=0.0), acc
            )
            a += BLOCK_K
            b += BLOCK_K * N
        c = c_ptr + rows[:, None] * N + cols[None, :]
        tl.store(c, acc.to(tl.float16), mask=(rows[:, None] < M) & (cols[None, :] < N))


def inputs(m, n, k):
    torch.manual_seed(0)
    return (torch.randn(m, k, device=DEVICE) / 8).half(), (torch.randn(k, n, device=DEVICE) / 8).half()


def run(m=4096, n=4096, k=2048):
    a, b = inputs(m, n, k)
    c = torch.empty(m, n, dtype=torch.float16, device=DEVICE)

    def grid(meta):
        tiles = triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"])
        return (min(tiles, PROCESSORS * meta["WAVES"]),)

    gemm_persistent[grid](a, b, c, m, n, k, PROCESSORS)
    return c


def expected(m=4096, n=4096, k=2048):
    a, b = inputs(m, n, k)
    return (a.float() @ b.float()).half()
