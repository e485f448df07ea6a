"""Which cards a task, a card of NVIDIA's, a language and a parent get, and that their examples compile."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.core.values import Candidate, Signature, TensorSpec
from forewarp.gpu_runner.compilers import compile_candidate, nvrtc
from forewarp.gpu_runner.devices import known_targets
from forewarp.prompts import cards

PRODUCT = "def forward(self, a, b):\n    return a @ b"
TOLD = {"hopper_matrix": "matmul", "hopper_fp8": "float8 matmul", "hopper_attention": "attention"}
FP8, BF16 = "float8_e4m3fn", "bfloat16"


def names(task: str, arch: str = "sm_90", language: str = "cuda", **facts: float) -> list[str]:
    return [card.name for card in cards.choose(task, arch, [language], facts)]


def test_a_product_on_hopper_gets_its_matrix_instructions_and_no_other_architecture_does():
    assert names(PRODUCT)[0] == "hopper_matrix"
    assert "hopper_matrix" not in names(PRODUCT, "sm_89")
    assert "hopper_matrix" not in names(PRODUCT, language="triton")
    assert names(PRODUCT, language="python") == ["library"]


def test_the_parents_facts_rule_cards_out():
    assert "hopper_matrix" not in names(PRODUCT, flops_per_byte=2.0)
    assert "streaming" in names("rmsnorm", flops_per_byte=0.0)
    assert names("paged attention", flops_per_byte=4.0)[0] == "decode"
    assert "hopper_attention" not in names("paged attention", flops_per_byte=4.0)
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
        ("hopper_fp8", product(4096, 4096, 4096, FP8), "QGMMA"),
        ("hopper_attention", attention(), "HGMMA"),
    ],
)
def test_examples_compile_to_hoppers_own_instructions(name: str, signature: Signature, tensor: str, tmp_path: Path):
    if nvrtc.library() is None:
        pytest.skip("NVRTC is not installed")
    (card,) = (c for c in cards.choose(TOLD[name], "sm_90", ["cuda"], {"flops_per_byte": 500.0}) if c.name == name)
    manifest = compile_candidate(Candidate(card.source, "cuda"), [signature], known_targets()["h100"], tmp_path)
    codes = [k["code"] for v in manifest["variants"].values() for k in v["kernels"].values()]
    main = max(codes, key=lambda code: code["code_bytes"])
    assert main["stack_bytes"] == 0
    assert main["mix"]["tensor"] > 0
    assert main["widths"][f"tensor.{tensor}"] > 0
    assert main["widths"]["bulk_copy.UTMALDG"] > 0


def signature(inputs: str, outputs: str) -> Signature:
    """Return a signature of tensors that are written as `dtype 2 3, …`."""
    specs = [
        tuple(
            TensorSpec(str(i), tuple(map(int, sizes)), dtype) for i, (dtype, *sizes) in enumerate(map(str.split, text))
        )
        for text in (inputs.split(", "), outputs.split(", "))
    ]
    return Signature("w", specs[0], {}, {}, (), specs[1], None, 1)


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("quantised", signature(f"{BF16} 64 4096, uint8 1008 2048, {BF16} 1008 32, uint8 1008 32", f"{BF16} 64 1008")),
        ("online_softmax", signature(f"{BF16} 64 50257, int64 64", f"float32 64, {BF16} 64 50257")),
        ("split_depth", signature(f"{BF16} 64 4096, {BF16} 4096 1", f"{BF16} 64 1")),
        (
            "decode",
            signature(f"{BF16} 2 8 128, {BF16} 9 16 2 128, {BF16} 9 16 2 128, int32 2 4, int32 2", f"{BF16} 2 8 128"),
        ),
        (
            "streaming",
            signature(
                f"{BF16} 2 3 128, {BF16} 2 3 128, {BF16} 2 3 128, float32 2 3, float32 2 3, float32 2 3 128 128",
                f"{BF16} 2 3 128, float32 2 3 128 128",
            ),
        ),
    ],
)
def test_examples_of_memory_bound_work_compile_without_spills(name: str, signature: Signature, tmp_path: Path):
    if nvrtc.library() is None:
        pytest.skip("NVRTC is not installed")
    source = next(c.source for c in cards.every() if c.name == name)
    manifest = compile_candidate(Candidate(source, "cuda"), [signature], known_targets()["h100"], tmp_path)
    codes = [k["code"] for v in manifest["variants"].values() for k in v["kernels"].values()]
    assert codes
    assert not any(code["stack_bytes"] for code in codes)
