"""Spaces of configurations of a matrix product."""

from __future__ import annotations

from forewarp.tuning.space import Configuration, Space, TensorArgument

PRODUCT = """def product(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ks = tl.arange(0, STEP)
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K, STEP):
        a = tl.load(a_ptr + rows[:, None] * K + k + ks[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * N + rows[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * N + rows[None, :], acc.to(tl.float16))
"""
HALF = TensorArgument("float16", (256, 256))


def product_space(*sizes: tuple[int, int]) -> Space:
    arguments = {"a_ptr": HALF, "b_ptr": HALF, "c_ptr": HALF, "M": 256, "N": 256, "K": 256}
    configurations = [Configuration({"BLOCK": block, "STEP": step}) for block, step in sizes]
    return Space("product", PRODUCT, arguments, configurations, [(256 // block,) for block, _ in sizes])
