"""Ways to other code by Inductor for a GPU: products of fp32 matrices on tensor cores, rows shared by blocks.

An fp32 number is the sum of three of bf16, exactly. Of the nine products of two such sums the six that reach the last
bits of fp32 are taken (Henry, Tang and Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for
higher-precision computations", 2019; cuBLAS has it for newer cards). Inductor makes the parts, along with what comes
before, and `worker.product` multiplies them. Tensor cores cut their sums off instead of rounding them: errors grow with
the length of the sums, to several times those of fp32 (`benchmarks/results/product_of_parts.json`).

A softmax or a norm reads its rows twice. Where the rows that all blocks work on do not fit into the L2 cache, the
second reading comes from memory. With several blocks to a row fewer rows are in work. Inductor has code for it, which
it uses where there are few rows, so that all blocks run at once. Blocks begin in order, and those of a row are
neighbours: the first rows that are not done have all their blocks running, however many rows wait.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import re
from collections.abc import Callable, Generator
from functools import cache
from typing import Any
from unittest import mock

import torch

_ROUND, _TOP_HALF = 1 << 15, -(1 << 16)
_OP = "torch.ops.forewarp_seeds.product.default"
TUNABLES = {
    "PRODUCT_ROWS": (128, 64, 256),
    "PRODUCT_COLUMNS": (64, 128, 256),
    "PRODUCT_DEPTH": (32, 64),
    "PRODUCT_WARPS": (4, 8),
    "PRODUCT_STAGES": (3, 2, 4),
}
"""Blocks of the product, warps and stages, those first that were fastest for 1024 × 8192 × 8192 on an H200."""
MOST_BLOCKS = 64
"""To a row: for more Inductor's code has no room to put its partial results."""
_L2_SHARE = 0.5
"""Of the L2 cache, for the rows in work; what is written passes through it, too."""
_BLOCKS_AT_ONCE = 4
"""Of 512 threads, that a multiprocessor runs."""
_KERNEL = re.compile(r"async_compile\.triton\('\w+', '''(.*?)'''", re.DOTALL)


def parts(x: torch.Tensor) -> torch.Tensor:
    """Return three bf16 tensors, stacked, the sum of which is an fp32 one; cut by bits, as Inductor drops casts."""

    def top(value: torch.Tensor) -> torch.Tensor:
        return ((value.view(torch.int32) + _ROUND) & _TOP_HALF).view(torch.float32)

    if x.stride(-2) < x.stride(-1):
        return parts(x.transpose(-1, -2)).transpose(-1, -2)
    first = top(x)
    second = top(x - first)
    return torch.stack([p.to(torch.bfloat16) for p in (first, second, x - first - second)])


@contextlib.contextmanager
def split_products() -> Generator[None]:
    """Have Inductor compute products of fp32 matrices from parts, for as long as this lasts."""
    from torch._inductor.decomposition import decompositions

    aten: Any = torch.ops.aten
    multiply = _operator()

    def product(a: torch.Tensor, b: torch.Tensor) -> Any:
        return multiply(parts(a), parts(b)) if a.dtype == torch.float32 else NotImplemented

    def addmm(bias: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *, beta: float = 1, alpha: float = 1) -> Any:
        made = product(a, b)
        return made if made is NotImplemented else made * alpha + bias * beta

    table: dict[Any, Any] = {aten.mm.default: product, aten.bmm.default: product, aten.addmm.default: addmm}
    with mock.patch.dict(decompositions, table):
        yield


def product_constraints(shared_bytes: int) -> tuple[str, ...]:
    """Return the constraints on `TUNABLES`: tiles fit into `shared_bytes`, sums into registers."""
    return (
        f"6 * PRODUCT_STAGES * PRODUCT_DEPTH * (PRODUCT_ROWS + PRODUCT_COLUMNS) <= {shared_bytes}",
        "2 * PRODUCT_ROWS * PRODUCT_COLUMNS <= 128 * 32 * PRODUCT_WARPS",
    )


def written_out(code: str) -> str:
    """Return Inductor's code with the text of the product in place of an operator that only this process has."""
    if _OP not in code:
        raise ValueError("Inductor's code has no product from parts")
    from forewarp.gpu_runner.worker import product

    text = inspect.getsource(product).partition("annotations\n")[2].strip()
    call = f"product_of_parts(a, b, {', '.join(TUNABLES)})"
    return f"{text}\n\n\ndef _product(a, b):\n    return {call}\n\n\n{code.replace(_OP, '_product')}"


@cache
def _operator() -> Callable[..., torch.Tensor]:
    """Return an operator that Inductor leaves as it is."""

    @torch.library.custom_op("forewarp_seeds::product", mutates_args=())
    def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        from forewarp.gpu_runner.worker.product import product_of_parts

        return product_of_parts(a, b, *(choices[0] for choices in TUNABLES.values()))

    @product.register_fake
    def _(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.new_empty((*a.shape[1:-1], b.shape[-1]), dtype=torch.float32)

    return torch.ops.forewarp_seeds.product.default


def blocks_per_row(code: str, l2_bytes: int, processors: int) -> int:
    """Return how many blocks should share a row in Inductor's code, for the L2 cache to hold rows; 1 for no gain."""
    most = 1
    for text in _KERNEL.findall(code):
        sizes = {name: int(n) for name, n in re.findall(r"^ +(xnumel|r0_numel) = (\d+)$", text, re.MULTILINE)}
        if len(sizes) < 2 or text.count("for r0_offset in ") < 2:
            continue
        row = 4 * sizes["r0_numel"]
        blocks = 2 ** math.ceil(math.log2(max(1.0, _BLOCKS_AT_ONCE * processors * row / (_L2_SHARE * l2_bytes))))
        if sizes["xnumel"] * row > l2_bytes and blocks <= MOST_BLOCKS:
            most = max(most, blocks)
    return most


@contextlib.contextmanager
def shared_rows(blocks: int) -> Generator[None]:
    """Have `blocks` blocks share each row of the reductions that Inductor generates, for as long as this lasts."""
    from torch._inductor import config
    from torch._inductor.runtime import triton_heuristics as heuristics

    usual, autotune = heuristics.cooperative_reduction, heuristics.cached_autotune

    def tuned(size_hints: Any, configs: list[Any], **more: Any) -> Any:
        for found in configs:
            found.kwargs["RSPLIT"] = blocks
        return autotune(size_hints, configs=configs, **more)

    def shared(*, triton_meta: dict[str, Any], **more: Any) -> Any:
        # Such a launch is refused unless all blocks of all rows run at once.
        meta = {name: value for name, value in triton_meta.items() if name != "launch_cooperative_grid"}
        with mock.patch.object(heuristics, "cached_autotune", tuned):
            return usual(triton_meta=meta, **more)

    with (
        mock.patch.object(heuristics, "cooperative_reduction", shared),
        config.patch({"triton.force_cooperative_reductions": True}),
    ):
        yield
