"""Product of a matrix of which few blocks are not zero, rows of blocks with their columns, and a dense one in bf16."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BLOCK = 64
CONFIGS = [
    triton.Config({"TILE_N": n, "TILE_K": k, "ORDER": o}, num_warps=w, num_stages=s)
    for n, k, o, w, s in itertools.product((32, 64, 128, 256), (16, 32, 64), (1, 8), (2, 4, 8), (1, 2, 3, 4))
    if not (n == 256 and w == 2) and not (n == 32 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["N", "K"])
@triton.jit
def gemm_block_sparse(
    crow_ptr,
    col_ptr,
    values_ptr,
    dense_ptr,
    out_ptr,
    N,
    K,
    BLOCK: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    ORDER: tl.constexpr,
):
    row_block, col_tile = tl.swizzle2d(
        tl.program_id(0), tl.program_id(1), tl.num_programs(0), tl.num_programs(1), ORDER
    )
    first = tl.load(crow_ptr + row_block)
    last = tl.load(crow_ptr + row_block + 1)
    rows = tl.arange(0, BLOCK)
    inner = tl.arange(0, TILE_K)
    cols = col_tile * TILE_N + tl.arange(0, TILE_N)
    acc = tl.zeros((BLOCK, TILE_N), dtype=tl.float32)
    for block in range(first, last):
        at = tl.load(col_ptr + block)
        for k in range(0, BLOCK, TILE_K):
            left = tl.load(values_ptr + block * BLOCK * BLOCK + rows[:, None] * BLOCK + k + inner[None, :])
            right = tl.load(dense_ptr + (at * BLOCK + k + inner)[:, None] * N + cols[None, :])
            acc = tl.dot(left, right, acc)
    out = out_ptr + (row_block * BLOCK + rows)[:, None] * N + cols[None, :]
    tl.store(out, acc.to(tl.bfloat16))


def inputs(m, n, k, part):
    torch.manual_seed(0)
    rows, cols = m // BLOCK, k // BLOCK
    each = max(1, int(cols * part))
    places = torch.rand(rows, cols).argsort(1)[:, :each].sort(1).values.int().to(DEVICE)
    starts = (torch.arange(rows + 1) * each).int().to(DEVICE)
    values = torch.randn(rows * each, BLOCK, BLOCK, device=DEVICE).bfloat16()
    return starts, places.flatten(), values, torch.randn(k, n, device=DEVICE).bfloat16()


def run(m=8192, n=4096, k=8192, part=0.125):
    starts, places, values, dense = inputs(m, n, k, part)
    out = torch.empty(m, n, dtype=torch.bfloat16, device=DEVICE)
    gemm_block_sparse[lambda meta: (m // BLOCK, triton.cdiv(n, meta["TILE_N"]))](
        starts, places, values, dense, out, n, k, BLOCK
    )
    return out


def expected(m=8192, n=4096, k=8192, part=0.125):
    _, places, values, dense = inputs(m, n, k, part)
    whole = torch.zeros(m // BLOCK, k // BLOCK, BLOCK, BLOCK, device=DEVICE)
    rows = torch.arange(m // BLOCK, device=DEVICE).repeat_interleave(len(places) // (m // BLOCK))
    whole[rows, places.long()] = values.float()
    return (whole.transpose(1, 2).reshape(m, k) @ dense.float()).bfloat16()
