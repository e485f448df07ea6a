"""What a launch of each configuration does."""

from __future__ import annotations

import pytest
from support.spaces import PRODUCT, product_space

from forewarp.gpu_runner.devices import known_targets
from forewarp.tuning import physics
from forewarp.tuning.space import Configuration, Space, TensorArgument


def test_unknown_loops_are_scaled_by_what_has_to_be_written() -> None:
    """A persistent kernel that takes tiles until none is left has the work of all tiles, whatever the grid."""
    source = """def persistent(x, o, first, TILES: tl.constexpr):
    tile = tl.program_id(0)
    i = tl.arange(0, 128)
    while tile < tl.load(first):
        tl.store(o + tile * 128 + i, tl.load(x + tile * 128 + i))
        tile += TILES
"""
    tensor = TensorArgument("float32", (1 << 20,))
    arguments = {"x": tensor, "o": tensor, "first": TensorArgument("int32", (1,))}
    few, many = 64, 512
    space = Space(
        "persistent",
        source,
        arguments,
        [Configuration({"TILES": few}), Configuration({"TILES": many})],
        [(few,), (many,)],
    )
    moved = physics.amounts(space).moved_bytes
    assert moved == pytest.approx([2 * 4 << 20] * 2, rel=0.01)


ATTENTION = """def attention(q_ptr, k_ptr, v_ptr, o_ptr, N, D: tl.constexpr, BLOCK: tl.constexpr):
    rows, dims = tl.arange(0, BLOCK), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + dims[None, :])
    acc = tl.zeros((BLOCK, D), dtype=tl.float32)
    for start in range(0, N, BLOCK):
        k = tl.load(k_ptr + (start + rows)[None, :] * D + dims[:, None])
        p = tl.exp2(tl.dot(q, k))
        acc = tl.dot(p.to(tl.bfloat16), tl.load(v_ptr + (start + rows)[:, None] * D + dims[None, :]), acc)
    for start in range(N, N + BLOCK, BLOCK):
        k = tl.load(k_ptr + (start + rows)[None, :] * D + dims[:, None])
        p = tl.exp2(tl.dot(q, k))
        acc = tl.dot(p.to(tl.bfloat16), tl.load(v_ptr + (start + rows)[:, None] * D + dims[None, :]), acc)
    tl.store(o_ptr + rows[:, None] * D + dims[None, :], acc.to(tl.bfloat16))
"""


def test_shared_memory_holds_the_operands_of_one_loop_at_a_time() -> None:
    """Expects what Triton 3.7 allocates on an H100: q once, k and v once a stage, nothing for p (in registers)."""
    tensor = TensorArgument("bfloat16", (2048, 128))
    arguments = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "o_ptr"), tensor) | {"N": 2048, "D": 128}
    space = Space("attention", ATTENTION, arguments, [Configuration({"BLOCK": 64}, 4, 3)], [(32,)])
    tile = 64 * 128 * 2
    assert physics.times(physics.amounts(space), known_targets()["h100"]).shared == [tile + 3 * 2 * tile]


@pytest.mark.parametrize(("card", "block", "buffers"), [("h100", 64, 3), ("h100", 32, 2), ("a100", 64, 2)])
def test_a_stage_more_waits_in_shared_memory_where_warps_multiply_in_groups(
    card: str, block: int, buffers: int
) -> None:
    counted = physics.amounts(product_space((block, 64)))
    assert physics.times(counted, known_targets()[card]).shared == [buffers * 2 * block * 64 * 2]


def test_registers_hold_a_sum_once_and_the_addresses_of_operands() -> None:
    counted = physics.amounts(product_space((128, 64)))
    assert counted.held == [128 * 128]
    added = PRODUCT.replace("acc = tl.dot(a, b, acc)", "acc += tl.dot(a, b)")
    space = product_space((128, 64))
    apart = Space(space.kernel, added, space.arguments, space.configurations, space.grids)
    assert physics.amounts(apart).held == counted.held
    addresses = 2 * (2 * 128 * 64 * 2) / 16
    registers = physics.times(counted, known_targets()["h100"]).registers
    assert registers == [physics.BASE_REGISTERS + (128 * 128 + addresses) / 128]
