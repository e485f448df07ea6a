"""The benchmark of fused mixtures of experts, up to where it needs a GPU."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import moe
import moe_calls
import pytest

from forewarp.gpu_runner.devices import known_targets

LIBRARY = '''
import torch
import library_that_is_not_here.ops as ops
from library_that_is_not_here import tl, triton

STEP: tl.constexpr = 1
LIMIT = 0


@triton.jit
def unused(x):
    ops.other(x)


@triton.jit
def rows_of(ids_ptr, pid, BLOCK_SIZE_M: tl.constexpr):
    return tl.load(ids_ptr + pid * BLOCK_SIZE_M + tl.arange(0, BLOCK_SIZE_M))


@triton.jit
def fused_moe_kernel(
    a_ptr, b_ptr, c_ptr, b_bias_ptr, sorted_token_ids_ptr, expert_ids_ptr, num_tokens_post_padded_ptr, topk_weights_ptr,
    N, K, EM, num_valid_tokens, stride_am, stride_bse,
    group_n: tl.constexpr, BLOCK_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr, BLOCK_SIZE_K: tl.constexpr,
    GROUP_SIZE_M: tl.constexpr, MUL_ROUTED_WEIGHT: tl.constexpr, top_k: tl.constexpr, compute_type: tl.constexpr,
    use_fp8_w8a8: tl.constexpr, HAS_BIAS: tl.constexpr, naive_block_assignment: tl.constexpr, SPLIT_K: tl.constexpr,
    SWAP_AB: tl.constexpr, USE_TD: tl.constexpr = False,
):
    """Multiply each block of tokens with its expert's weights."""
    pid = tl.program_id(0)
    pid_m = pid // tl.cdiv(N, BLOCK_SIZE_N)
    pid_n = pid % tl.cdiv(N, BLOCK_SIZE_N)
    if pid_m * BLOCK_SIZE_M >= tl.load(num_tokens_post_padded_ptr):
        return
    tokens = rows_of(sorted_token_ids_ptr, pid_m, BLOCK_SIZE_M)
    there = tokens < num_valid_tokens
    expert = tl.load(expert_ids_ptr + pid_m).to(tl.int64)
    cols = (pid_n * BLOCK_SIZE_N + tl.arange(0, BLOCK_SIZE_N)) % N
    ks = tl.arange(0, BLOCK_SIZE_K)
    acc = tl.zeros((BLOCK_SIZE_M, BLOCK_SIZE_N), dtype=tl.float32)
    for k in range(LIMIT, tl.cdiv(K, BLOCK_SIZE_K)):
        left = tl.load(a_ptr + tokens[:, None] // top_k * K + k * BLOCK_SIZE_K + ks[None, :], mask=there[:, None])
        right = tl.load(b_ptr + expert * N * K + cols[None, :] * K + k * BLOCK_SIZE_K + ks[:, None])
        acc = tl.dot(left, right, acc)
    tl.store(c_ptr + tokens[:, None] * N + cols[None, :], acc.to(compute_type), mask=there[:, None])
'''


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> moe.BothProducts:
    source = tmp_path / "library.py"
    source.write_text(LIBRARY)
    moe.write_module(source, tmp_path / "made")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "fused_moe", raising=False)
    return moe.BothProducts(tmp_path / "made", 64)


def test_the_kernel_is_taken_with_what_it_names_and_nothing_else() -> None:
    text = moe.kernel_text(LIBRARY)
    assert "def rows_of" in text
    assert "LIMIT = 0" in text
    assert "library_that_is_not_here" not in text
    assert "unused" not in text
    with pytest.raises(ValueError, match="no function fused_moe_kernel"):
        moe.kernel_text("x = 1")


def test_the_space_is_that_of_vllm_and_both_products_are_forecast_together(both: moe.BothProducts) -> None:
    assert len(both.configs) == 1920
    up, down = (launch.arguments for launch in both.launches)
    assert (up["N"], up["K"], up["top_k"]) == (14336, 4096, 2)
    assert (down["N"], down["K"], down["top_k"]) == (4096, 7168, 1)
    seconds = both.seconds(known_targets()["h100"])
    place = both.place({"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 64})
    assert place is not None
    order = both.ranked(known_targets()["h100"])
    assert seconds[order[0]] == pytest.approx(min(seconds.values()))
    tiles = [tuple(v for n, v in moe.as_named(both.configs[p]).items() if n != "GROUP_SIZE_M") for p in order[:24]]
    assert len(set(tiles)) == 24
    assert len(both.alike(order[0], known_targets()["h100"])) >= 3
    facts = {p: [{"registers": 64.0, "spills": 0.0, "shared": 40e3}] * 2 for p in (place, 0)}
    assert set(both.ranked(known_targets()["h100"], facts)) == {place, 0}
    assert both.place({"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 32, "GROUP_SIZE_M": 8}) is None


@pytest.mark.parametrize(("tokens", "block"), [(1, 16), (64, 16), (64, 256), (300, 128)])
def test_each_slot_stands_in_a_tile_of_its_expert(tokens: int, block: int) -> None:
    routes = moe_calls.routes(tokens, 8, 2)
    found = moe_calls.aligned(tokens, 2, 8, block, "cpu")
    slots, owners = found["sorted_token_ids_ptr"].tolist(), found["expert_ids_ptr"].tolist()
    assert sorted(s for s in slots if s < len(routes)) == list(range(2 * tokens))
    assert all(routes[s] == owners[i // block] for i, s in enumerate(slots) if s < len(routes))
    assert found["num_tokens_post_padded_ptr"].tolist() == [len(slots)] == [len(owners) * block]
    assert all(len(set(routes[i : i + 2])) == 2 for i in range(0, len(routes), 2))


def row(place: int, tokens: int, compile_s: float, bench_s: float) -> dict[str, Any]:
    return {"place": place, "tokens": tokens, "us": 9.0, "compile_s": compile_s, "bench_s": bench_s}


def test_seconds_of_all_are_estimated_from_a_sample_and_called_so() -> None:
    rows = [row(3, 16, 1.0, 0.5), row(3, 128, 0.0, 0.7), row(4, 16, 3.0, 0.5), row(4, 128, 0.0, 0.7)]
    found = moe.their_seconds(rows, 128, 100)
    assert (found["tried"], found["estimated"]) == (2, True)
    assert found["seconds"] == pytest.approx(50 * (1.0 + 3.0 + 1.4))
    assert found["compiled_s"] == pytest.approx(50 * 1.4)
    assert moe.their_seconds(rows, 16, 2)["estimated"] is False
    assert moe.their_seconds(rows, 1, 2) == {"tried": 0}
