"""Forecasts of configurations: physics, corrected by trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.spaces import PRODUCT, product_space

from forewarp.core.trees import Trees
from forewarp.gpu_runner.devices import known_targets
from forewarp.tuning import forecasts, physics
from forewarp.tuning.physics import CompilerFacts, fastest_first
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
    assert fastest_first(forecasts.forecast(space, H200).seconds) == [1, 0]


def test_what_does_not_fit_into_shared_memory_comes_last() -> None:
    fits, not_fits = (Configuration({"BLOCK": 128, "STEP": 128}, 8, stages) for stages in (2, 6))
    seconds = forecasts.forecast(large_product(not_fits, fits), H200).seconds
    assert seconds[0] > 5 * seconds[1]


def test_facts_of_the_compiler_take_the_place_of_what_is_reckoned() -> None:
    space = large_product(*(Configuration({"BLOCK": 128, "STEP": 64}, 4),) * 2)
    seconds = forecasts.forecast(space, H200, CompilerFacts([128, 255], [0, 400], [98304, 98304])).seconds
    assert seconds[1] > 2 * seconds[0]


def test_equal_configurations_keep_their_order() -> None:
    assert fastest_first(forecasts.forecast(product_space((64, 32), (64, 32), (64, 32)), H200).seconds) == [0, 1, 2]


def test_a_faster_memory_makes_a_copy_faster() -> None:
    source = """def copy(x, o, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i))
"""
    tensor = TensorArgument("float32", (1 << 28,))
    space = Space("copy", source, {"x": tensor, "o": tensor}, [Configuration({"B": 1024})], [(1 << 18,)])
    h100 = known_targets()["h100"]
    assert forecasts.forecast(space, H200).seconds[0] < forecasts.forecast(space, h100).seconds[0]


def test_stages_of_a_kernel_without_products_do_nothing() -> None:
    source = """def total(x, o, N, B: tl.constexpr):
    i = tl.arange(0, B)
    sums = tl.zeros((B,), dtype=tl.float32)
    for start in range(0, N, B):
        sums += tl.load(x + tl.program_id(0) * N + start + i)
    tl.store(o + tl.program_id(0), tl.sum(sums, 0))
"""
    arguments = {"x": TensorArgument("float32", (512, 8192)), "o": TensorArgument("float32", (512,)), "N": 8192}
    configurations = [Configuration({"B": 1024}, 4, stages) for stages in (1, 2, 4)]
    space = Space("total", source, arguments, configurations, [(512,)] * 3)
    assert len(set(forecasts.forecast(space, H200).seconds)) == 1


def test_trees_add_octaves_to_what_physics_says() -> None:
    space = large_product(Configuration({"BLOCK": 64, "STEP": 32}, 4), Configuration({"BLOCK": 64, "STEP": 32}, 8))
    counted = physics.amounts(space)
    times = physics.times(counted, H200)
    columns = forecasts.columns(counted, times, H200)
    warps = next(i for i in range(columns.shape[1]) if set(columns[:, i]) == {2.322, 3.17})  # log2(warps + 1)
    tree = Trees(
        np.array([warps, 0, 0], np.int16),
        np.array([3.0, 0.0, 0.0]),
        np.array([1, 1, 2], np.int32),
        np.array([2, 1, 2], np.int32),
        np.array([0.0, -1.0, 2.0], np.float32),
        np.array([0], np.int32),
    )
    added = np.log2(forecasts.corrected(counted, times, H200, tree).seconds / times.seconds)
    assert added == pytest.approx([-1.0, 2.0])


def test_what_trees_see_does_not_depend_on_the_last_bits_of_a_time() -> None:
    space = product_space((64, 32), (32, 64))
    counted = physics.amounts(space)
    times = physics.times(counted, H200)
    nudged = replace(times, seconds=times.seconds * (1 + 1e-12))
    assert (forecasts.columns(counted, times, H200) == forecasts.columns(counted, nudged, H200)).all()


def test_the_package_has_trees_with_and_without_the_compilers_facts() -> None:
    space = product_space((64, 32), (128, 64))
    plain, said = (
        forecasts.forecast(space, H200, facts) for facts in (None, CompilerFacts([64, 128], [0, 0], [16384, 49152]))
    )
    assert np.isfinite([plain.seconds, said.seconds]).all()
    assert (plain.seconds != said.seconds).all()
    assert forecasts.version()
