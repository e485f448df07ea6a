"""Grouped matrix product: programs walk over the tiles of several products of different heights."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "PROGRAMS": p}, num_warps=w, num_stages=s)
    for m, n, k, p, w, s in itertools.product((64, 128), (64, 128, 256), (32, 64), (84, 132, 264), (4, 8), (2, 3, 4))
    if not (m * n >= 128 * 256 and w == 4)
]


@triton.autotune(configs=CONFIGS, key=["GROUPS", "N", "K"])
@triton.jit
def grouped_gemm(
    a_ptr,
    b_ptr,
    c_ptr,
    first_ptr,
    GROUPS,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    PROGRAMS: tl.constexpr,
):
    tile = tl.program_id(0)
    passed = 0
    ks = tl.arange(0, BLOCK_K)
    num_n = tl.cdiv(N, BLOCK_N)
    for group in range(GROUPS):
        first = tl.load(first_ptr + group)
        m = tl.load(first_ptr + group + 1) - first
        tiles = tl.cdiv(m, BLOCK_M) * num_n
        while tile >= passed and tile < passed + tiles:
            inside = tile - passed
            rows = (inside // num_n) * BLOCK_M + tl.arange(0, BLOCK_M)
            cols = (inside % num_n) * BLOCK_N + tl.arange(0, BLOCK_N)
            a = a_ptr + (first + rows)[:, None] * K + ks[None, :]
            b = b_ptr + group * K * N + ks[:, None] * N + cols[None, :]
            acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for _ in range(0, tl.cdiv(K, BLOCK_K)):
                acc = tl.dot(tl.load(a, mask=rows[:, None] < m, other=0.0), tl.load(b), acc)
                a += BLOCK_K
                b += BLOCK_K * N
            c = c_ptr + (first + rows)[:, None] * N + cols[None, :]
            tl.store(c, acc.to(tl.float16), mask=rows[:, None] < m)
            tile += PROGRAMS
        passed += tiles


def inputs(groups, mean, n, k):
    torch.manual_seed(0)
    heights = [mean // 2 + (mean * g) // max(1, groups - 1) for g in range(groups)]
    firsts = torch.tensor([0, *itertools.accumulate(heights)], dtype=torch.int32, device=DEVICE)
    a = (torch.randn(sum(heights), k, device=DEVICE) / 8).half()
    return a, (torch.randn(groups, k, n, device=DEVICE) / 8).half(), firsts


def run(groups=8, mean=512, n=2048, k=1024):
    a, b, firsts = inputs(groups, mean, n, k)
    c = torch.empty(len(a), n, dtype=torch.float16, device=DEVICE)
    grouped_gemm[lambda meta: (meta["PROGRAMS"],)](a, b, c, firsts, groups, n, k)
    return c


def expected(groups=8, mean=512, n=2048, k=1024):
    a, b, firsts = inputs(groups, mean, n, k)
    bounds = firsts.tolist()
    return torch.cat([(a[i:j].float() @ b[g].float()).half() for g, (i, j) in enumerate(itertools.pairwise(bounds))])
