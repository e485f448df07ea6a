"""Rows of a table gathered by index, several rows and a block of columns per program."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"ROWS": r, "BLOCK": b}, num_warps=w, num_stages=s)
    for r, b, w, s in itertools.product((1, 2, 4, 8, 16, 32), (64, 128, 256, 512, 1024, 2048), (1, 2, 4, 8), (1, 2))
    if 128 <= r * b <= 8192 and not (r * b >= 4096 and w == 1)
]


@triton.autotune(configs=CONFIGS, key=["M", "N"])
@triton.jit
def embedding(index_ptr, table_ptr, out_ptr, M, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    chosen = tl.load(index_ptr + rows, mask=rows < M, other=0)
    mask = (rows < M)[:, None] & (cols < N)[None, :]
    x = tl.load(table_ptr + chosen[:, None] * N + cols[None, :], mask=mask, other=0.0)
    tl.store(out_ptr + rows[:, None].to(tl.int64) * N + cols[None, :], x, mask=mask)


def inputs(m, n, vocabulary):
    torch.manual_seed(0)
    table = torch.randn(vocabulary, n, device=DEVICE).half()
    return torch.randint(vocabulary, (m,), device=DEVICE), table


def run(m=32768, n=2048, vocabulary=50000):
    index, table = inputs(m, n, vocabulary)
    out = torch.empty(m, n, dtype=torch.float16, device=DEVICE)
    embedding[lambda meta: (triton.cdiv(m, meta["ROWS"]), triton.cdiv(n, meta["BLOCK"]))](index, table, out, m, n)
    return out


def expected(m=32768, n=2048, vocabulary=50000):
    index, table = inputs(m, n, vocabulary)
    return table[index]
