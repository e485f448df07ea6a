"""Ways of others to choose configurations."""

from __future__ import annotations

import configuration_baselines
import numpy as np
import pytest

from forewarp.gpu_runner.devices import known_targets
from forewarp.tuning.space import Configuration, Space, TensorArgument

H200 = known_targets()["h200"]


def product(*configurations: Configuration, side: int = 4096, dtype: str = "bfloat16") -> Space:
    tensor = TensorArgument(dtype, (side, side))
    return Space("gemm", "", {"a_ptr": tensor, "M": side, "N": side, "K": side}, configurations, [])


def tile(m: int, n: int, k: int = 64, *, stages: int = 3, split: int = 1) -> Configuration:
    return Configuration({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "SPLIT_K": split}, 8, stages)


def test_larger_tiles_load_less() -> None:
    assert configuration_baselines.matmul_model(product(tile(32, 32), tile(128, 128)), H200) == [1, 0]


def test_what_does_not_fit_and_what_cannot_add_atomically_are_left_out() -> None:
    space = product(tile(128, 128), tile(256, 256, 128, stages=4), tile(128, 128, split=4))
    assert configuration_baselines.matmul_model(space, H200) == [0]


def test_two_pipelines_of_a_tile_are_kept() -> None:
    space = product(*(tile(64, 64, 32, stages=s) for s in (2, 3, 4, 5)))
    assert configuration_baselines.matmul_model(space, H200) == [1, 2]  # 300 cycles hide behind 2.3 tiles


def test_other_kernels_have_no_model() -> None:
    space = Space("copy", "", {"a_ptr": TensorArgument("float32", (8,))}, [Configuration({"B": 8})], [])
    assert configuration_baselines.matmul_model(space, H200) is None
    assert configuration_baselines.attention_rule(space, H200) is None


def test_the_rule_of_attention_keeps_eight_warps_for_large_tiles() -> None:
    configurations = [
        Configuration({"BLOCK_M": m, "BLOCK_N": n}, w) for m, n, w in ((128, 64, 8), (128, 128, 8), (64, 128, 4))
    ]
    space = Space("attention_forward", "", {"N_CTX": 1024}, configurations, [])
    assert configuration_baselines.attention_rule(space, H200) == [1]


@pytest.mark.parametrize("sampler", configuration_baselines.SAMPLERS)
def test_a_search_measures_each_configuration_once_and_learns(sampler: str) -> None:
    pytest.importorskip("optuna")
    configurations = [Configuration({"BLOCK": 1 << i}, w) for i in range(12) for w in (2, 4, 8)]
    us = np.array([2.0 ** abs(np.log2(c.values["BLOCK"]) - 7) * (1 + c.warps / 8) for c in configurations])
    orders = [configuration_baselines.searched(configurations, us, sampler, seed) for seed in range(4)]
    assert all(sorted(order) == list(range(len(us))) for order in orders)
    needed = [int(np.argmin(us[order])) for order in orders]
    assert np.mean(needed) < len(us) / 2 - 4
