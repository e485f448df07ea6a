"""Root mean square normalisation in groups of a row, gated by SiLU of another input, in loops over the group."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK_N": n, "ROWS": r}, num_warps=w, num_stages=s)
    for n, r, w, s in itertools.product((128, 256, 512, 1024, 2048), (1, 2, 4, 8), (1, 2, 4, 8), (1, 2))
    if n * r <= 8192 and not (n * r >= 4096 and w == 1) and not (n * r <= 256 and w == 8)
]


@triton.autotune(configs=CONFIGS, key=["N"])
@triton.jit
def rmsnorm_gated(x_ptr, z_ptr, w_ptr, y_ptr, rstd_ptr, M, N, GROUPS, eps, BLOCK_N: tl.constexpr, ROWS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    group = tl.program_id(1)
    base = rows[:, None].to(tl.int64) * N * GROUPS + group * N
    cols = tl.arange(0, BLOCK_N)
    mask_m = rows[:, None] < M
    square = tl.zeros([ROWS, BLOCK_N], dtype=tl.float32)
    for off in range(0, N, BLOCK_N):
        x = tl.load(x_ptr + base + off + cols[None, :], mask=mask_m & (off + cols[None, :] < N), other=0.0)
        x = x.to(tl.float32)
        square += x * x
    rstd = 1 / tl.sqrt(tl.sum(square, axis=1) / N + eps)
    tl.store(rstd_ptr + rows * GROUPS + group, rstd, mask=rows < M)
    for off in range(0, N, BLOCK_N):
        mask = mask_m & (off + cols[None, :] < N)
        x = tl.load(x_ptr + base + off + cols[None, :], mask=mask, other=0.0).to(tl.float32)
        z = tl.load(z_ptr + base + off + cols[None, :], mask=mask, other=0.0).to(tl.float32)
        w = tl.load(w_ptr + group * N + off + cols, mask=off + cols < N, other=0.0).to(tl.float32)
        y = x * rstd[:, None] * w[None, :] * z * tl.sigmoid(z)
        tl.store(y_ptr + base + off + cols[None, :], y.to(tl.bfloat16), mask=mask)


def inputs(m, groups, n):
    torch.manual_seed(0)
    x, z = (torch.randn(m, groups * n, device=DEVICE).bfloat16() for _ in range(2))
    return x, z, torch.rand(groups * n, device=DEVICE).bfloat16()


def run(m=8192, groups=8, n=1024):
    x, z, w = inputs(m, groups, n)
    y, rstd = torch.empty_like(x), torch.empty(m, groups, device=DEVICE)
    rmsnorm_gated[lambda meta: (triton.cdiv(m, meta["ROWS"]), groups)](x, z, w, y, rstd, m, n, groups, 1e-5)
    return y


def expected(m=8192, groups=8, n=1024):
    x, z, w = (t.float() for t in inputs(m, groups, n))
    parts = x.view(m, groups, n)
    normed = parts * torch.rsqrt(parts.pow(2).mean(2, keepdim=True) + 1e-5)
    return (normed.view(m, -1) * w * torch.nn.functional.silu(z)).bfloat16()
