"""Forecasts of configurations by physics."""

from __future__ import annotations

import numpy as np
import pytest
from tuning.test_counting import PRODUCT, product_space

from forewarp.gpu_runner.devices import known_targets
from forewarp.tuning import physics
from forewarp.tuning.physics import Facts
from forewarp.tuning.space import Configuration, Space, TensorArgument

H200 = known_targets()["h200"]


def large_product(*configurations: Configuration) -> Space:
    side = 4096
    tensor = TensorArgument("bfloat16", (side, side))
    arguments = {"a_ptr": tensor, "b_ptr": tensor, "c_ptr": tensor, "M": side, "N": side, "K": side}
    grids = [(side // c.values["BLOCK"], side // c.values["BLOCK"]) for c in configurations]
    return Space("product", PRODUCT, arguments, configurations, grids)


def test_large_tiles_are_forecast_faster_than_small_ones_in_a_large_product() -> None:
    space = large_product(Configuration({"BLOCK": 32, "STEP": 32}), Configuration({"BLOCK": 128, "STEP": 64}, 8))
    assert physics.forecast(space, H200).order() == [1, 0]


def test_what_does_not_fit_into_shared_memory_comes_last() -> None:
    fits, not_fits = (Configuration({"BLOCK": 128, "STEP": 128}, 8, stages) for stages in (2, 6))
    seconds = physics.forecast(large_product(not_fits, fits), H200).seconds
    assert seconds[0] > 5 * seconds[1]


def test_facts_of_the_compiler_take_the_place_of_what_is_reckoned() -> None:
    space = large_product(*(Configuration({"BLOCK": 128, "STEP": 64}, 4),) * 2)
    seconds = physics.forecast(space, H200, Facts([128, 255], [0, 400], [98304, 98304])).seconds
    assert seconds[1] > 2 * seconds[0]


def test_equal_configurations_keep_their_order() -> None:
    assert physics.forecast(product_space((64, 32), (64, 32), (64, 32)), H200).order() == [0, 1, 2]


def test_a_faster_memory_makes_a_copy_faster() -> None:
    source = """def copy(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i))
"""
    tensor = TensorArgument("float32", (1 << 28,))
    space = Space("copy", source, {"x": tensor, "o": tensor}, [Configuration({"B": 1024})], [(1 << 18,)])
    h100 = known_targets()["h100"]
    assert physics.forecast(space, H200).seconds[0] < physics.forecast(space, h100).seconds[0]


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


def test_the_rates_of_the_package_are_complete() -> None:
    for compiled in (False, True):
        parameters, spread = physics.fitted(compiled)
        assert all(np.isfinite(getattr(parameters, name)) and getattr(parameters, name) > 0 for name in physics.names())
        assert 0.1 < spread < 1.0
    assert physics.version()
