"""forewarp
format = 1
inputs = ["x"]
outputs = ["y"]
constraints = [
  "ROWS * BLOCK <= 2048 * WARPS",
  "WHOLE == 0 or (BLOCK == 1024 and STAGES == 1 and MOMENTS == 2 and 2 * ROWS <= WARPS)",
]

[params]
weight = "norm.weight"
bias = "norm.bias"

[tunables]
WHOLE = [0, 1]                     # 0 reads each row again for every pass, block by block; 1 holds it
MOMENTS = [2, 1]                   # passes over a row for its mean and variance
BLOCK = [1024, 512, 2048, 4096]    # columns per step
ROWS = [1, 2, 4]                   # rows per program
WARPS = [4, 1, 2, 8, 16]
STAGES = [1, 2, 3]
PROGRAMS = [0, 264, 1056]          # programs that share the rows; 0 is one program per group of rows

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
groups = "cdiv(rows, ROWS)"

[constants]
COLS_POW2 = "next_pow2(cols)"

[[launch]]
kernel = "layernorm_gelu"
args = ["x", "weight", "bias", "y", "rows", "cols"]
grid = ["min(PROGRAMS, groups) if PROGRAMS > 0 else groups"]
num_warps = "WARPS"
num_stages = "STAGES"
"""

import triton
import triton.language as tl


@triton.jit
def affine_gelu(v, mean, scale, weight, bias, c, cols):
    w = tl.load(weight + c, mask=c < cols, other=0.0)
    b = tl.load(bias + c, mask=c < cols, other=0.0)
    z = (v - mean) * scale * w + b
    return 0.5 * z * (1.0 + tl.erf(z * 0.70710678))


@triton.jit
def by_blocks(
    x, weight, bias, y, inside, cols,
    MOMENTS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
):
    # About any of the row's elements, unlike about zero, E[x²] - E[x]² does not cancel far from zero.
    shift = tl.load(x, mask=inside, other=0.0) if MOMENTS == 1 else 0.0
    total = tl.zeros([ROWS, BLOCK], tl.float32)
    squares = tl.zeros([ROWS, BLOCK], tl.float32)
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        c = start + tl.arange(0, BLOCK)[None, :]
        v = tl.load(x + c, mask=inside & (c < cols), other=0.0)
        if MOMENTS == 1:
            v = tl.where(c < cols, v - shift, 0.0)
            squares += v * v
        total += v
    above = (tl.sum(total, axis=1) / cols)[:, None]
    mean = above + shift
    if MOMENTS == 1:
        variance = (tl.sum(squares, axis=1) / cols)[:, None] - above * above
    else:
        for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
            c = start + tl.arange(0, BLOCK)[None, :]
            v = tl.where(c < cols, tl.load(x + c, mask=inside & (c < cols), other=0.0) - mean, 0.0)
            squares += v * v
        variance = (tl.sum(squares, axis=1) / cols)[:, None]
    scale = tl.rsqrt(variance + 1e-5)
    for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
        c = start + tl.arange(0, BLOCK)[None, :]
        v = tl.load(x + c, mask=inside & (c < cols), other=0.0)
        tl.store(y + c, affine_gelu(v, mean, scale, weight, bias, c, cols), mask=inside & (c < cols))


@triton.jit
def at_once(x, weight, bias, y, inside, cols, COLS_POW2: tl.constexpr):
    c = tl.arange(0, COLS_POW2)[None, :]
    v = tl.load(x + c, mask=inside & (c < cols), other=0.0)
    mean = (tl.sum(v, axis=1) / cols)[:, None]
    centred = tl.where(c < cols, v - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=1) / cols + 1e-5)[:, None]
    tl.store(y + c, affine_gelu(v, mean, scale, weight, bias, c, cols), mask=inside & (c < cols))


@triton.jit
def layernorm_gelu(
    x, weight, bias, y, rows, cols,
    WHOLE: tl.constexpr, MOMENTS: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr,
    COLS_POW2: tl.constexpr,
):
    for group in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        r = group * ROWS + tl.arange(0, ROWS)[:, None]
        at = r.to(tl.int64) * cols
        if WHOLE:
            at_once(x + at, weight, bias, y + at, r < rows, cols, COLS_POW2)
        else:
            by_blocks(x + at, weight, bias, y + at, r < rows, cols, MOMENTS, BLOCK, ROWS, STAGES)
