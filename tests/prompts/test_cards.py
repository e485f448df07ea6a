"""Which cards a task, a card of NVIDIA's, a language and a parent get, and that their examples compile."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.core.values import Candidate, Signature, TensorSpec
from forewarp.gpu_runner.compilers import compile_candidate, nvrtc
from forewarp.gpu_runner.devices import known_targets
from forewarp.prompts import cards

PRODUCT = "def forward(self, a, b):\n    return a @ b"
FP8, BF16 = "float8_e4m3fn", "bfloat16"


def names(task: str, arch: str = "sm_90", language: str = "cuda", **facts: float) -> list[str]:
    return [card.name for card in cards.choose(task, arch, [language], facts)]


def test_a_product_on_hopper_gets_its_matrix_instructions_and_no_other_architecture_does():
    assert names(PRODUCT)[0] == "hopper_matrix"
    assert "hopper_matrix" not in names(PRODUCT, "sm_89")
    assert names(PRODUCT, "sm_89")[0] == "cp_async"
    assert names(PRODUCT, language="triton")[0] == "triton_hopper"
    assert names(PRODUCT, language="python") == ["library"]


def test_the_parents_facts_rule_cards_out():
    assert "hopper_matrix" not in names(PRODUCT, flops_per_byte=2.0)
    assert "streaming" in names("rmsnorm", flops_per_byte=0.0)
    assert "streaming" not in names("rmsnorm", flops_per_byte=500.0)
    assert "split_depth" not in names(PRODUCT, waves=8.0)


def test_never_more_than_a_few():
    assert len(names("attention softmax linear float8 quant " + PRODUCT)) == cards.MOST


def product(m: int, n: int, k: int, dtype: str = BF16) -> Signature:
    b = (n, k) if dtype == FP8 else (k, n)
    inputs = [TensorSpec("a", (m, k), dtype), TensorSpec("b", b, dtype)]
    inputs += [TensorSpec(s, (), "float32") for s in ("s", "t")] if dtype == FP8 else []
    return Signature("w", tuple(inputs), {}, {}, (), (TensorSpec("c", (m, n), BF16),), 2.0 * m * n * k, 1)


def attention() -> Signature:
    q, k, v = (TensorSpec(name, (2, 4, 1000, 128), BF16) for name in "qkv")
    return Signature("w", (q, k, v), {}, {}, (), (TensorSpec("o", q.shape, BF16),), None, 1)


@pytest.mark.parametrize(
    ("name", "signature", "tensor"),
    [
        ("hopper_matrix", product(4096, 4096, 4096), "HGMMA"),
        ("hopper_matrix", product(2047, 3001, 1537), "HGMMA"),
        ("quantised", product(4096, 4096, 4096, FP8), "QGMMA"),
        ("hopper_attention", attention(), "HGMMA"),
    ],
)
def test_examples_compile_to_hoppers_own_instructions(name: str, signature: Signature, tensor: str, tmp_path: Path):
    if nvrtc.library() is None:
        pytest.skip("NVRTC is not installed")
    (card,) = (c for c in cards.choose("matmul attention float8", "sm_90", ["cuda"], {}) if c.name == name)
    manifest = compile_candidate(Candidate(card.source, "cuda"), [signature], known_targets()["h100"], tmp_path)
    codes = [k["code"] for v in manifest["variants"].values() for k in v["kernels"].values()]
    main = max(codes, key=lambda code: code["code_bytes"])
    assert main["stack_bytes"] == 0
    assert main["mix"]["tensor"] > 0
    assert main["widths"][f"tensor.{tensor}"] > 0
    assert main["widths"]["bulk_copy.UTMALDG"] > 0
