"""forewarp
format = 1
inputs = ["left", "right", "gate"]
outputs = ["out"]
constraints = ["(BM + 256) * BK * 2 * STAGES <= 220000", "BM <= 16 * WARPS"]

[tunables]
BM = [128, 64]
BK = [64, 128]
WARPS = [8, 4]
STAGES = [4, 3, 2]
TK = [128, 256, 64]
TW = [4, 8]
FW = [8, 4]

[constants]
N = "left.shape[1]"
C = "left.shape[3]"
CP = "next_pow2(left.shape[3])"
KP = "cdiv(left.shape[1], 128) * 128"
BX = "64 if left.shape[1] % 192 == 0 else 128"

[let]
nb = "left.shape[0]"
nbc = "left.shape[0] * left.shape[3]"

[scratch]
t = { dtype = "bfloat16", shape = ["2 * left.shape[0] * left.shape[3] * left.shape[1] * KP"] }

[[launch]]
kernel = "to_planes"
args = ["left", "right", "t", "nbc"]
grid = ["cdiv(KP, TK)", "nb * N"]
num_warps = "TW"
num_stages = 1

[[launch]]
kernel = "plane_gemm"
args = ["t", "out", "nbc"]
grid = ["cdiv(N, BM) * cdiv(N, 128 + BX) * nbc"]
num_warps = "WARPS"
num_stages = "STAGES"

[[launch]]
kernel = "finish"
args = ["gate", "out"]
grid = ["cdiv(N, 128 + BX)", "nb * N"]
num_warps = "FW"
num_stages = 1
"""

import triton
import triton.language as tl


# [b, i, k, c] -> planes [tensor, b, c, i, k]
@triton.jit
def to_planes(left, right, t, nbc, N: tl.constexpr, C: tl.constexpr, CP: tl.constexpr, KP: tl.constexpr,
              TK: tl.constexpr):
    k = tl.program_id(0) * TK + tl.arange(0, TK)
    row = tl.program_id(1)
    c = tl.arange(0, CP)
    at = row * (N * C) + k[:, None] * C + c[None, :]
    m = (k[:, None] < N) & (c[None, :] < C)
    v = tl.load(left + at, mask=m, other=0.0, eviction_policy="evict_first")
    u = tl.load(right + at, mask=m, other=0.0, eviction_policy="evict_first")
    b = row // N
    i = row % N
    to = ((b * C + c[:, None]) * N + i) * KP + k[None, :]
    mt = (c[:, None] < C) & (k[None, :] < KP)
    tl.store(t + to, tl.trans(v), mask=mt)
    tl.store(t + nbc * (N * KP) + to, tl.trans(u), mask=mt)


# one channel, one tile of BM x (128 + BX) with two accumulators: 192 columns where they divide N (4.5 instead of 5 full
# waves for 768), else 256. Stored in `out` as blocks [b, i, j-block, c, j] of a multiple of 8 columns; the few columns
# that remain go to their final place
@triton.jit
def plane_gemm(t, out, nbc, N: tl.constexpr, C: tl.constexpr, KP: tl.constexpr, BM: tl.constexpr,
               BX: tl.constexpr, BK: tl.constexpr):
    W: tl.constexpr = 128 + BX
    NM: tl.constexpr = (N + BM - 1) // BM
    NN: tl.constexpr = (N + W - 1) // W
    pid = tl.program_id(0)
    bc = nbc - 1 - pid // (NM * NN)
    rem = pid % (NM * NN)
    i = (NM - 1 - rem // NN) * BM + tl.arange(0, BM)
    j0 = (rem % NN) * W
    j1 = tl.arange(0, 128)
    j2 = 128 + tl.arange(0, BX)
    rk = tl.arange(0, BK)
    ra = (bc * N + tl.minimum(i, N - 1)) * KP
    r1 = ((nbc + bc) * N + tl.minimum(j0 + j1, N - 1)) * KP
    r2 = ((nbc + bc) * N + tl.minimum(j0 + j2, N - 1)) * KP
    pa = t + ra[:, None] + rk[None, :]
    p1 = t + r1[:, None] + rk[None, :]
    p2 = t + r2[:, None] + rk[None, :]
    acc1 = tl.zeros((BM, 128), dtype=tl.float32)
    acc2 = tl.zeros((BM, BX), dtype=tl.float32)
    for k0 in range(0, KP, BK):
        x = tl.load(pa + k0, eviction_policy="evict_first")
        y1 = tl.load(p1 + k0, eviction_policy="evict_first")
        y2 = tl.load(p2 + k0, eviction_policy="evict_first")
        acc1 = tl.dot(x, tl.trans(y1), acc1)
        acc2 = tl.dot(x, tl.trans(y2), acc2)
    b = bc // C
    c = bc % C
    base = (b * N + i) * (N * C) + j0 * C
    jw = tl.minimum((N - j0) // 8, W // 8) * 8
    v1 = acc1.to(tl.bfloat16)
    v2 = acc2.to(tl.bfloat16)
    tl.store(out + base[:, None] + (c * jw + j1)[None, :], v1, mask=(i < N)[:, None] & (j1 < jw)[None, :],
             eviction_policy="evict_last")
    tl.store(out + base[:, None] + (c * jw + j2)[None, :], v2, mask=(i < N)[:, None] & (j2 < jw)[None, :],
             eviction_policy="evict_last")
    if N % 8 != 0:
        if j0 + 128 > N:
            tl.store(out + base[:, None] + (j1 * C + c)[None, :], v1,
                     mask=(i < N)[:, None] & ((j1 >= jw) & (j1 < N - j0))[None, :])
        if j0 + W > N:
            tl.store(out + base[:, None] + (j2 * C + c)[None, :], v2,
                     mask=(i < N)[:, None] & ((j2 >= jw) & (j2 < N - j0))[None, :])


# in place: block [c, j] -> [j, c], times the gate
@triton.jit
def finish(gate, out, N: tl.constexpr, C: tl.constexpr, CP: tl.constexpr, BX: tl.constexpr):
    W: tl.constexpr = 128 + BX
    j0 = tl.program_id(0) * W
    row = tl.program_id(1)
    jj = tl.arange(0, 256)
    c = tl.arange(0, CP)
    base = row * (N * C) + j0 * C
    w = tl.minimum(N - j0, W)
    jw = tl.minimum((N - j0) // 8, W // 8) * 8
    m = (jj[:, None] < w) & (c[None, :] < C)
    at = base + jj[:, None] * C + c[None, :]
    g = tl.load(gate + at, mask=m, other=0.0, eviction_policy="evict_first")
    u = tl.load(out + base + c[:, None] * jw + jj[None, :], mask=(c[:, None] < C) & (jj[None, :] < jw), other=0.0)
    ut = tl.trans(u)
    if N % 8 != 0:
        ut = tl.where(jj[:, None] < jw, ut, tl.load(out + at, mask=m & (jj[:, None] >= jw), other=0.0))
    tl.debug_barrier()
    r = ut.to(tl.float32) * tl.sigmoid(g.to(tl.float32))
    tl.debug_barrier()
    tl.store(out + at, r.to(tl.bfloat16), mask=m)
