"""forewarp
format = 1
inputs = ["x"]
outputs = ["y"]
constraints = [
  "ROWS * BLOCK <= 2048 * WARPS",
  "PASSES > 1 or (BLOCK == 1024 and STAGES == 1 and ROWS == 1 and WARPS >= 4)",
]

[tunables]
PASSES = [1, 3, 2]                 # reads of x: 2 keeps a running maximum and sum, 1 holds the row
BLOCK = [1024, 512, 2048, 4096]    # columns per step
ROWS = [1, 2]                      # rows per program
WARPS = [8, 4, 1, 2, 16]
STAGES = [1, 2, 3]
PROGRAMS = [0, 264, 1056]          # programs that share the rows; 0 is one program per group of rows

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
groups = "cdiv(rows, ROWS)"

[constants]
COLS_POW2 = "next_pow2(cols)"

[[launch]]
kernel = "softmax"
args = ["x", "y", "rows", "cols"]
grid = ["min(PROGRAMS, groups) if PROGRAMS > 0 else groups"]
num_warps = "WARPS"
num_stages = "STAGES"
"""

import triton
import triton.language as tl


@triton.jit
def three_passes(x, y, inside, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    top = tl.full([ROWS, BLOCK], float("-inf"), tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        c = start + tl.arange(0, BLOCK)[None, :]
        top = tl.maximum(top, tl.load(x + c, mask=inside & (c < cols), other=float("-inf")))
    # Rows past the end hold nothing but -inf; a finite maximum keeps their exponentials at zero.
    top_of_row = tl.maximum(tl.max(top, axis=1), -1e30)[:, None]
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        c = start + tl.arange(0, BLOCK)[None, :]
        total += tl.exp(tl.load(x + c, mask=inside & (c < cols), other=float("-inf")) - top_of_row)
    scale = 1.0 / tl.sum(total, axis=1)[:, None]
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        c = start + tl.arange(0, BLOCK)[None, :]
        e = tl.exp(tl.load(x + c, mask=inside & (c < cols), other=float("-inf")) - top_of_row)
        tl.store(y + c, e * scale, mask=inside & (c < cols))


@triton.jit
def two_passes(x, y, inside, cols, ROWS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    top = tl.full([ROWS, BLOCK], -1e30, tl.float32)
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        c = start + tl.arange(0, BLOCK)[None, :]
        v = tl.load(x + c, mask=inside & (c < cols), other=float("-inf"))
        bigger = tl.maximum(top, v)
        total = total * tl.exp(top - bigger) + tl.exp(v - bigger)
        top = bigger
    top_of_row = tl.max(top, axis=1)[:, None]
    scale = 1.0 / tl.sum(total * tl.exp(top - top_of_row), axis=1)[:, None]
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        c = start + tl.arange(0, BLOCK)[None, :]
        e = tl.exp(tl.load(x + c, mask=inside & (c < cols), other=float("-inf")) - top_of_row)
        tl.store(y + c, e * scale, mask=inside & (c < cols))


@triton.jit
def one_pass(x, y, inside, cols, COLS_POW2: tl.constexpr):
    c = tl.arange(0, COLS_POW2)[None, :]
    v = tl.load(x + c, mask=inside & (c < cols), other=float("-inf"))
    e = tl.exp(v - tl.maximum(tl.max(v, axis=1), -1e30)[:, None])
    tl.store(y + c, e / tl.sum(e, axis=1)[:, None], mask=inside & (c < cols))


@triton.jit
def softmax(
    x, y, rows, cols,
    PASSES: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr, COLS_POW2: tl.constexpr,
):
    for group in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        r = group * ROWS + tl.arange(0, ROWS)[:, None]
        at = r.to(tl.int64) * cols
        if PASSES == 3:
            three_passes(x + at, y + at, r < rows, cols, ROWS, BLOCK, STAGES)
        elif PASSES == 2:
            two_passes(x + at, y + at, r < rows, cols, ROWS, BLOCK, STAGES)
        else:
            one_pass(x + at, y + at, r < rows, cols, COLS_POW2)
