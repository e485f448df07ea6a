"""forewarp
format = 1
inputs = ["a", "b"]
outputs = ["c"]
# Operand tiles of all stages lie in shared memory (227 KiB on sm_90); accumulators lie in registers.
constraints = [
  "2 * BK * (BM + BN) * max(STAGES, 1) <= 232448",
  "BM * BN <= 4096 * WARPS",
]

[tunables]
BM = [64, 32, 128, 256]
BN = [64, 32, 128, 256]
BK = [32, 64, 128]
GROUP = [1, 8]             # blocks of rows that run next to each other
WARPS = [4, 2, 8]
STAGES = [1, 2, 3, 4]

[let]
m = "a.shape[0]"
k = "a.shape[1]"
n = "b.shape[1]"

[[launch]]
kernel = "matmul"
args = ["a", "b", "c", "m", "n", "k"]
grid = ["cdiv(m, BM) * cdiv(n, BN)"]
num_warps = "WARPS"
num_stages = "STAGES"
"""

import triton
import triton.language as tl


@triton.jit
def matmul(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr):
    pid = tl.program_id(0)
    high, wide = tl.cdiv(m, BM), tl.cdiv(n, BN)
    first = pid // (GROUP * wide) * GROUP
    size = min(high - first, GROUP)
    row = (first + pid % (GROUP * wide) % size) * BM + tl.arange(0, BM)[:, None]
    col = pid % (GROUP * wide) // size * BN + tl.arange(0, BN)[None, :]
    down = tl.arange(0, BK)
    total = tl.zeros([BM, BN], tl.float32)
    for start in range(0, k, BK):
        left = k - start
        at = tl.load(a + row * k + (start + down)[None, :], mask=(row < m) & (down[None, :] < left), other=0.0)
        bt = tl.load(b + (start + down)[:, None] * n + col, mask=(down[:, None] < left) & (col < n), other=0.0)
        total = tl.dot(at, bt, total)
    tl.store(c + row * n + col, total.to(c.dtype.element_ty), mask=(row < m) & (col < n))
