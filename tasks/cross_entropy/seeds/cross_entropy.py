"""forewarp
format = 1
inputs = ["logits", "targets"]
outputs = ["loss"]
constraints = ["512 * WARPS <= BLOCK", "BLOCK <= 2048 * WARPS"]

[tunables]
PARTS = [1, 2, 4, 8]                     # programs that share a row
BLOCK = [4096, 1024, 2048, 8192]         # columns per step
WARPS = [4, 1, 2, 8, 16]
STAGES = [1, 2, 3]

[let]
rows = "logits.shape[0]"
cols = "logits.shape[1]"

[scratch]
peaks = { dtype = "float32", shape = ["rows", "PARTS"] }
sums = { dtype = "float32", shape = ["rows", "PARTS"] }

[[launch]]
kernel = "reduce_parts"
args = ["logits", "targets", "peaks", "sums", "loss", "cols"]
grid = ["rows", "PARTS"]
num_warps = "WARPS"
num_stages = "STAGES"

[[launch]]
kernel = "combine"
when = "PARTS > 1"
args = ["logits", "targets", "peaks", "sums", "loss", "rows", "cols"]
grid = ["cdiv(rows, 128)"]
"""

import triton
import triton.language as tl


@triton.jit
def reduce_parts(
    logits, targets, peaks, sums, loss, cols,
    PARTS: tl.constexpr, BLOCK: tl.constexpr, STAGES: tl.constexpr,
):
    """One pass over a part of a row: each column of the block keeps a maximum, and the sum relative to it."""
    row, part = tl.program_id(0), tl.program_id(1)
    x = logits + row.to(tl.int64) * cols
    each = tl.cdiv(tl.cdiv(cols, PARTS), BLOCK) * BLOCK
    end = min((part + 1) * each, cols)
    top = tl.full([BLOCK], -1e30, tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in tl.range(part * each, end, BLOCK, num_stages=STAGES):
        c = start + tl.arange(0, BLOCK)
        v = tl.load(x + c, mask=c < end, other=float("-inf"))
        bigger = tl.maximum(top, v)
        total = total * tl.exp(top - bigger) + tl.exp(v - bigger)
        top = bigger
    peak = tl.max(top)
    whole = tl.sum(total * tl.exp(top - peak))
    if PARTS == 1:
        tl.store(loss + row, tl.log(whole) + peak - tl.load(x + tl.load(targets + row)))
    else:
        tl.store(peaks + row * PARTS + part, peak)
        tl.store(sums + row * PARTS + part, whole)


@triton.jit
def combine(logits, targets, peaks, sums, loss, rows, cols, PARTS: tl.constexpr):
    row = tl.program_id(0) * 128 + tl.arange(0, 128)
    inside = row < rows
    at = row[:, None] * PARTS + tl.arange(0, PARTS)[None, :]
    peak = tl.load(peaks + at, mask=inside[:, None], other=0.0)
    top = tl.max(peak, axis=1)
    total = tl.sum(tl.load(sums + at, mask=inside[:, None], other=1.0) * tl.exp(peak - top[:, None]), axis=1)
    target = tl.load(targets + row, mask=inside, other=0)
    chosen = tl.load(logits + row.to(tl.int64) * cols + target, mask=inside, other=0.0)
    tl.store(loss + row, tl.log(total) + top - chosen, mask=inside)
