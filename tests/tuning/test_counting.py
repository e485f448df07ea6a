"""Counting what the programs of a kernel do."""

from __future__ import annotations

import numpy as np
import pytest
from support.spaces import HALF, product_space

from forewarp.tuning import counting
from forewarp.tuning.space import Configuration, Space, TensorArgument


def counted(
    source: str, arguments: dict[str, object], *values: dict[str, object], grid: int = 8
) -> counting.ProgramWork:
    return counting.count(
        Space("kernel", source, arguments, [Configuration(v) for v in values], [(grid,)] * len(values))
    )


def test_a_product_moves_tiles_and_multiplies() -> None:
    work = counting.count(product_space((64, 32), (128, 64)))
    assert list(counting.mean(work.loads["a_ptr"])) == [64 * 256 * 2, 128 * 256 * 2]
    assert list(counting.mean(work.stores["c_ptr"])) == [64 * 64 * 2, 128 * 128 * 2]
    assert list(counting.mean(work.dots["fp16"])) == [2 * 64 * 64 * 256, 2 * 128 * 128 * 256]
    assert list(counting.mean(work.get("iterations"))) == [8, 4]
    assert list(counting.mean(work.get("dot_k"))) == [32, 64]
    assert list(counting.mean(work.get("staged"))) == [2 * 64 * 32 * 2, 2 * 128 * 64 * 2]


def test_rows_that_lie_apart_move_whole_sectors() -> None:
    source = """def gather(x, o, N, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i * N))
"""
    work = counted(source, {"x": HALF, "o": HALF, "N": 256}, {"BLOCK": 64})
    assert counting.mean(work.get("sectors"))[0] == 64 * counting.SECTOR
    assert counting.mean(work.get("stored_sectors"))[0] == 64 * 2


def test_loops_whose_length_depends_on_the_program_are_averaged() -> None:
    source = """def causal(x, o, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    for k in range(0, tl.program_id(0) + 1):
        tl.store(o + i, tl.load(x + i))
"""
    work = counted(source, {"x": HALF, "o": HALF}, {"BLOCK": 32}, grid=80)
    mean = counting.mean(work.loads["x"])[0] / (32 * 2)
    assert mean == pytest.approx(41, abs=1)
    assert counting.spread(work.loads["x"])[0] > 1.5


def test_branches_on_meta_parameters_count_for_their_configurations_only() -> None:
    source = """def either(x, o, SPLIT: tl.constexpr):
    i = tl.arange(0, 64)
    if SPLIT == 1:
        tl.store(o + i, tl.load(x + i))
    else:
        tl.atomic_add(o + i, tl.load(x + i))
"""
    work = counted(source, {"x": HALF, "o": HALF}, {"SPLIT": 1}, {"SPLIT": 4})
    assert list(counting.mean(work.stores["o"])) == [128, 0]
    assert list(counting.mean(work.atomics["o"])) == [0, 128]


def test_what_is_loaded_in_a_branch_of_a_branch_is_multiplied() -> None:
    source = """def moe(x, w, o, desc, EVEN, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    place = i[:, None] * BLOCK + i[None, :]
    if desc is not None:
        a = desc.load([0, 0])
    elif EVEN:
        a = tl.load(x + place)
    else:
        a = tl.load(x + place, mask=place < 1)
    tl.store(o + place, tl.dot(a, tl.load(w + place)))
"""
    arguments: dict[str, object] = {"x": HALF, "w": HALF, "o": HALF, "desc": None, "EVEN": 1}
    assert list(counting.mean(counted(source, arguments, {"BLOCK": 64}).dots["fp16"])) == [2 * 64**3]


ATTENTION = """def attention(q, k, o, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * 64 + tl.arange(0, 64)
    i = tl.arange(0, 64)
    left = tl.load(q + rows[:, None] * 64 + i[None, :])
    acc = tl.zeros((64, 64), dtype=tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * 64, BLOCK):
        right = tl.load(k + (start + tl.arange(0, BLOCK))[:, None] * 64 + i[None, :])
        p = tl.exp(tl.dot(left, tl.trans(right)))
        acc = tl.dot(p.to(tl.bfloat16), right, acc)
    tl.store(o + rows[:, None] * 64 + i[None, :], acc)
"""


def attention(warps: int, grid: tuple[int, ...]) -> counting.ProgramWork:
    return counting.count(
        Space("attention", ATTENTION, dict.fromkeys("qko", HALF), [Configuration({"BLOCK": 32}, warps)], [grid])
    )


def test_programs_are_looked_at_along_each_axis() -> None:
    work = attention(4, (16, 64))
    assert counting.mean(work.loads["k"])[0] == pytest.approx(8.5 * 64 * 64 * 2, rel=0.1)


def test_warps_beyond_the_rows_of_a_product_that_is_multiplied_further_repeat_it() -> None:
    four, eight = (counting.mean(attention(w, (16, 64)).dots["fp16"])[0] for w in (4, 8))
    assert eight == pytest.approx(1.5 * four)


def test_a_product_that_is_scaled_takes_registers_beside_the_sum() -> None:
    source = """def scaled(x, w, o, K, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    place = i[:, None] * BLOCK + i[None, :]
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K):
        acc += tl.dot(tl.load(x + place), tl.load(w + place))
    tl.store(o + place, acc)
"""
    arguments: dict[str, object] = {"x": HALF, "w": HALF, "o": HALF, "K": 8}
    held = [
        counting.mean(counted(text, arguments, {"BLOCK": 64}).get("held"))[0]
        for text in (source, source.replace("w + place))\n", "w + place)) * 0.5\n"))
    ]
    assert held[1] == held[0] + 64 * 64


def test_what_an_operand_is_computed_from_waits_in_shared_memory_too() -> None:
    source = """def dequantising(x, w, o, K, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    place = i[:, None] * BLOCK + i[None, :]
    acc = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for k in range(0, K):
        acc = tl.dot(tl.load(x + place), tl.load(w + place) * 2, acc)
    tl.store(o + place, acc)
"""
    arguments: dict[str, object] = {"x": HALF, "w": HALF, "o": HALF, "K": 8}
    work = counted(source, arguments, {"BLOCK": 64})
    assert counting.mean(work.get("staged"))[0] == 2 * 64 * 64 * 2
    assert counting.mean(work.get("kept"))[0] == 64 * 64 * 2


def test_unrolled_loops_are_no_iterations() -> None:
    source = """def taps(x, o, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for tap in tl.static_range(4):
        total += tl.load(x + i + tap)
    tl.store(o + i, total)
"""
    work = counted(source, {"x": HALF, "o": HALF}, {"BLOCK": 64})
    assert counting.mean(work.get("iterations"))[0] == 0
    assert counting.mean(work.loads["x"])[0] == 4 * 64 * 2


def test_helpers_and_block_pointers_are_followed() -> None:
    source = """def outer(x, o, N, BLOCK: tl.constexpr):
    p = tl.make_block_ptr(x, (N, N), (N, 1), (0, 0), (BLOCK, 32), (1, 0))
    for _ in range(4):
        tl.store(o + tl.arange(0, BLOCK), inner(tl.load(p), 2.0))
        p = tl.advance(p, (0, 32))
"""
    inner = "def inner(tile, scale):\n    return tl.sum(tl.exp(tile * scale), 1)\n"
    space = Space(
        "outer", source, {"x": HALF, "o": HALF, "N": 256}, [Configuration({"BLOCK": 16})], [(4,)], {"inner": inner}
    )
    work = counting.count(space)
    assert counting.mean(work.loads["x"])[0] == 4 * 16 * 32 * 2
    assert counting.mean(work.get("special"))[0] == 4 * 16 * 32
    assert counting.mean(work.get("reduced"))[0] == 4 * 16 * 32
    assert counting.mean(work.stores["o"])[0] == 4 * 16 * 2


def test_text_that_does_not_parse_is_refused() -> None:
    with pytest.raises(counting.NotCounted, match="cannot be followed"):
        counted("def broken(:\n", {}, {"BLOCK": 1})


def test_a_loop_of_unknown_length_is_noted() -> None:
    source = """def ragged(x, n, o, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    length = tl.load(n)
    for k in range(0, length, BLOCK):
        tl.store(o + k + i, tl.load(x + k + i))
"""
    work = counted(source, {"x": HALF, "n": TensorArgument("int32", (1,)), "o": HALF}, {"BLOCK": 64}, {"BLOCK": 256})
    assert work.unknown
    assert np.all(counting.mean(work.get("iterations")) == [16, 4])
