"""Product of fp32 matrices from their parts in bf16, by Triton. The text of this file becomes part of modules."""

# pyright: reportMissingParameterType=false, reportUnknownParameterType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportMissingTypeStubs=false

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def product_kernel(
    a,
    b,
    c,
    m,
    n,
    k,
    part_a,
    batch_a,
    row_a,
    column_a,
    part_b,
    batch_b,
    row_b,
    column_b,
    EVEN: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Multiply a tile: of the nine products of parts, the six that reach the last bits of fp32."""
    tile, batch = tl.program_id(0), tl.program_id(1).to(tl.int64)
    part_a, part_b = tl.cast(part_a, tl.int64), tl.cast(part_b, tl.int64)
    across, down = tl.cdiv(n, COLUMNS), tl.cdiv(m, ROWS)
    first = tile // (GROUP * across) * GROUP
    height = min(down - first, GROUP)
    rows = (first + tile % height) * ROWS + tl.arange(0, ROWS)
    columns = tile % (GROUP * across) // height * COLUMNS + tl.arange(0, COLUMNS)
    steps = tl.arange(0, DEPTH)
    a += batch * batch_a + rows[:, None].to(tl.int64) * row_a + steps[None, :] * column_a
    b += batch * batch_b + steps[:, None].to(tl.int64) * row_b + columns[None, :] * column_b
    total, small = tl.zeros((ROWS, COLUMNS), tl.float32), tl.zeros((ROWS, COLUMNS), tl.float32)
    for done in range(0, k, DEPTH):
        if EVEN:
            a0, a1, a2 = tl.load(a), tl.load(a + part_a), tl.load(a + 2 * part_a)
            b0, b1, b2 = tl.load(b), tl.load(b + part_b), tl.load(b + 2 * part_b)
        else:
            inside_a = (rows < m)[:, None] & (steps < k - done)[None, :]
            inside_b = (steps < k - done)[:, None] & (columns < n)[None, :]
            a0 = tl.load(a, inside_a, 0.0)
            a1 = tl.load(a + part_a, inside_a, 0.0)
            a2 = tl.load(a + 2 * part_a, inside_a, 0.0)
            b0 = tl.load(b, inside_b, 0.0)
            b1 = tl.load(b + part_b, inside_b, 0.0)
            b2 = tl.load(b + 2 * part_b, inside_b, 0.0)
        # Apart from the long sum, which is rounded to what is large in it.
        total = tl.dot(a0, b0, total)
        small = tl.dot(a0, b1, small)
        small = tl.dot(a1, b0, small)
        small = tl.dot(a0, b2, small)
        small = tl.dot(a1, b1, small)
        small = tl.dot(a2, b0, small)
        a += DEPTH * column_a
        b += DEPTH * row_b
    c += batch * m * n + rows[:, None].to(tl.int64) * n + columns[None, :]
    tl.store(c, total + small, (rows < m)[:, None] & (columns < n)[None, :])


def product_of_parts(
    a: torch.Tensor, b: torch.Tensor, rows: int, columns: int, depth: int, warps: int, stages: int
) -> torch.Tensor:
    """Return the fp32 product of matrices, or batches of them; the first dimension is that of the three parts."""
    batch, (m, k), n = a.shape[1:-2].numel(), a.shape[-2:], b.shape[-1]
    result = torch.empty((*a.shape[1:-1], n), dtype=torch.float32, device=a.device)
    in_a, in_b = (t.stride() if t.ndim == 4 else (t.stride(0), 0, *t.stride()[1:]) for t in (a, b))
    even = m % rows == 0 and n % columns == 0 and k % depth == 0
    grid = (triton.cdiv(m, rows) * triton.cdiv(n, columns), batch)
    kernel: Any = product_kernel
    kernel[grid](a, b, result, m, n, k, *in_a, *in_b, even, rows, columns, depth, 8, num_warps=warps, num_stages=stages)
    return result
