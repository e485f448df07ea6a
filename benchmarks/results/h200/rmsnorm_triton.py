"""forewarp
format = 1
inputs = ["x"]
outputs = ["y"]
constraints = [
  "ROWS * BLOCK <= 2048 * WARPS",
  "WHOLE == 0 or (BLOCK == 1024 and STAGES == 1 and 2 * ROWS <= WARPS)",
]

[params]
weight = "weight"

[tunables]
WHOLE = [1, 0]                          # 0 reads each row twice, block by block; 1 holds it
BLOCK = [1024, 256, 512, 2048, 4096]    # columns per step
ROWS = [2, 1, 4]                        # rows per program
WARPS = [4, 1, 2, 8, 16]
STAGES = [1, 2, 3]
PROGRAMS = [0, 264, 1056]               # programs that share the rows; 0 is one program per group of rows

[let]
rows = "x.shape[0]"
cols = "x.shape[1]"
groups = "cdiv(rows, ROWS)"

[constants]
COLS_POW2 = "next_pow2(cols)"

[[launch]]
kernel = "rmsnorm"
args = ["x", "weight", "y", "rows", "cols", "init1:f32"]
grid = ["min(PROGRAMS, groups) if PROGRAMS > 0 else groups"]
num_warps = "WARPS"
num_stages = "STAGES"
"""

import triton
import triton.language as tl


@triton.jit
def rmsnorm(
    x, weight, y, rows, cols, eps,
    WHOLE: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, STAGES: tl.constexpr, COLS_POW2: tl.constexpr,
):
    for group in range(tl.program_id(0), tl.cdiv(rows, ROWS), tl.num_programs(0)):
        r = group * ROWS + tl.arange(0, ROWS)[:, None]
        inside = r < rows
        at = r.to(tl.int64) * cols
        if WHOLE:
            c = tl.arange(0, COLS_POW2)[None, :]
            v = tl.load(x + at + c, mask=inside & (c < cols), other=0.0)
            scale = tl.rsqrt(tl.sum(v * v, axis=1) / cols + eps)[:, None]
            w = tl.load(weight + c, mask=c < cols, other=0.0)
            tl.store(y + at + c, v * scale * w, mask=inside & (c < cols))
        else:
            squares = tl.zeros([ROWS, BLOCK], tl.float32)
            for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
                c = start + tl.arange(0, BLOCK)[None, :]
                v = tl.load(x + at + c, mask=inside & (c < cols), other=0.0)
                squares += v * v
            scale = tl.rsqrt(tl.sum(squares, axis=1) / cols + eps)[:, None]
            for start in tl.range(0, cols, BLOCK, num_stages=STAGES):
                c = start + tl.arange(0, BLOCK)[None, :]
                v = tl.load(x + at + c, mask=inside & (c < cols), other=0.0)
                w = tl.load(weight + c, mask=c < cols, other=0.0)
                tl.store(y + at + c, v * scale * w, mask=inside & (c < cols))
