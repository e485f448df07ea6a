"""Which cards a short name means."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarp.gpu_runner.devices import is_called, known_targets

CARD = known_targets()["h200"]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H200 NVL", "H200"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090", "4090"),
        ("NVIDIA RTX A6000", "a6000"),
        ("Tesla V100-SXM2-16GB", "v100-sxm2"),
        ("NVIDIA L40S", "cuda"),
    ],
)
def test_whole_words_of_a_name_mean_the_card(name: str, short: str) -> None:
    assert is_called(replace(CARD, name=name), short)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA A100-SXM4-80GB", "a10"),
        ("NVIDIA H200", "h20"),
        ("NVIDIA GH200 480GB", "h200"),
        ("NVIDIA L40S", "l40"),
        ("NVIDIA L40S", "l4"),
        ("NVIDIA H200", ""),
        ("NVIDIA H200", "-"),
        ("NVIDIA H200", "cpu"),
    ],
)
def test_a_part_of_a_word_is_another_card(name: str, short: str) -> None:
    assert not is_called(replace(CARD, name=name), short)


def test_the_cards_that_are_known_are_called_by_their_keys() -> None:
    assert all(is_called(target, key) for key, target in known_targets().items())
