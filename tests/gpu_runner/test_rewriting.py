"""Products of fp32 matrices from their parts in bf16."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from forewarp.gpu_runner.worker.rewriting import blocks_per_row, parts, split_products, written_out


def test_three_parts_of_eight_bits_are_the_number() -> None:
    x = torch.randn(1000, 2) * torch.logspace(-20, 20, 1000).unsqueeze(1)
    made = parts(x)
    assert made.dtype == torch.bfloat16
    assert torch.equal(made.double().sum(0), x.double())
    assert parts(x.T).stride() == (2000, 1, 2)


def test_products_that_are_not_of_fp32_stay_and_all_is_as_before_afterwards() -> None:
    from torch._inductor.decomposition import decompositions  # takes a second

    before = dict(decompositions)
    with split_products():
        half = torch.randn(4, 4, dtype=torch.bfloat16)
        assert decompositions[torch.ops.aten.mm.default](half, half) is NotImplemented
        assert decompositions[torch.ops.aten.addmm.default](half, half, half) is NotImplemented
    assert dict(decompositions) == before


def test_code_without_such_a_product_is_refused() -> None:
    with pytest.raises(ValueError, match="no product"):
        written_out("def call(args):\n    return args")


INTERPRETED = """
import torch
from forewarp.gpu_runner.worker.product import product_of_parts
from forewarp.gpu_runner.worker.rewriting import parts

for batch, m, k, n in (((), 64, 64, 64), ((3,), 35, 50, 20)):
    a, b = torch.rand(*batch, m, k), torch.randn(*batch, n, k).transpose(-1, -2)
    exact = a.double() @ b.double()
    # The interpreter takes bf16 for whole numbers; in fp32 the parts are the same.
    made = product_of_parts(parts(a).float(), parts(b).float(), 32, 32, 32, 4, 2)
    assert (made - exact).square().mean().sqrt() < 2e-7 * exact.square().mean().sqrt()
print("right")
"""


def test_six_products_of_parts_are_that_of_the_matrices_whatever_their_sizes() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", INTERPRETED], capture_output=True, text=True, env=environment)
    assert done.stdout == "right\n", done.stderr


def kernel(rows: int, columns: int, loops: int) -> str:
    text = (
        f"    xnumel = {rows}\n    r0_numel = {columns}\n" + "    for r0_offset in range(0, r0_numel, 1024):\n" * loops
    )
    return f"red = async_compile.triton('red', '''\ndef red():\n{text}''', device_str='cuda')\n"


@pytest.mark.parametrize(
    ("code", "blocks"),
    [
        (kernel(4096, 393216, 2), 32),  # 528 blocks at once, and 16 rows of 1.6 MB fit into half the cache
        (kernel(4096, 393216, 1), 1),  # read once
        (kernel(4096, 1024, 2), 1),  # all of it fits
        (kernel(65536, 1024, 2), 1),  # the rows in work fit
        (kernel(64, 16 << 20, 2), 1),  # too long for any number of blocks
        (kernel(65536, 1024, 2) + kernel(4096, 393216, 2), 32),
    ],
)
def test_as_many_blocks_share_a_row_as_keep_the_rows_in_work_in_the_cache(code: str, blocks: int) -> None:
    assert blocks_per_row(code, 50 << 20, 132) == blocks
