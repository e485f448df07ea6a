"""A step of Adam over a flat tensor: four reads and three writes per element."""

import itertools

import torch
import triton
import triton.language as tl

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CONFIGS = [
    triton.Config({"BLOCK": b, "EACH": e}, num_warps=w, num_stages=s)
    for b, e, w, s in itertools.product((128, 256, 512, 1024, 2048, 4096), (1, 4, 16), (1, 2, 4, 8), (1, 3))
    if not (b >= 2048 and w == 1) and not (e == 1 and s == 3)
]


@triton.autotune(configs=CONFIGS, key=["N"])
@triton.jit
def adam(p_ptr, g_ptr, m_ptr, v_ptr, out_ptr, mo_ptr, vo_ptr, N, lr, BLOCK: tl.constexpr, EACH: tl.constexpr):
    first = tl.program_id(0).to(tl.int64) * BLOCK * EACH
    for step in range(EACH):
        at = first + step * BLOCK + tl.arange(0, BLOCK)
        mask = at < N
        g = tl.load(g_ptr + at, mask=mask, other=0.0)
        m = 0.9 * tl.load(m_ptr + at, mask=mask, other=0.0) + 0.1 * g
        v = 0.999 * tl.load(v_ptr + at, mask=mask, other=0.0) + 0.001 * g * g
        p = tl.load(p_ptr + at, mask=mask, other=0.0)
        tl.store(out_ptr + at, p - lr * m / (tl.sqrt(v) + 1e-8), mask=mask)
        tl.store(mo_ptr + at, m, mask=mask)
        tl.store(vo_ptr + at, v, mask=mask)


def inputs(n):
    torch.manual_seed(0)
    p, g, m = (torch.randn(n, device=DEVICE) for _ in range(3))
    return p, g, m, torch.rand(n, device=DEVICE)


def run(n=50_000_000):
    p, g, m, v = inputs(n)
    out, mo, vo = torch.empty_like(p), torch.empty_like(m), torch.empty_like(v)
    adam[lambda meta: (triton.cdiv(n, meta["BLOCK"] * meta["EACH"]),)](p, g, m, v, out, mo, vo, n, 1e-3)
    return out, mo, vo


def expected(n=50_000_000):
    p, g, m, v = inputs(n)
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-3 * m / (v.sqrt() + 1e-8), m, v
