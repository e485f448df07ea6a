from __future__ import annotations

from typing import Any

import pytest

from forewarp.core.errors import DeviceError, UsageError
from forewarp.gpu_runner.remote.cluster import RayNode, card_of, living


def said(name: str, resources: dict[str, float], *, alive: bool = True) -> dict[str, Any]:
    return {"NodeID": name, "Alive": alive, "NodeManagerAddress": f"10.0.0.{name}", "Resources": resources}


TAGGED = said("1", {"CPU": 64, "GPU": 8, "gpu:H200": 8, "accelerator_type:H200": 1})
FOUND = said("2", {"CPU": 32, "GPU": 4, "accelerator_type:A100": 1})
PLAIN = said("3", {"CPU": 16})


def test_cards_are_told_by_tag_then_by_what_ray_found() -> None:
    nodes = living([TAGGED, FOUND, PLAIN, said("4", {"CPU": 1}, alive=False), said("5", {"GPU": 2})])
    assert [(n.id, dict(n.cards), n.tagged, n.cores) for n in nodes] == [
        ("1", {"H200": 8}, True, 64),
        ("2", {"A100": 4}, False, 32),
        ("3", {}, False, 16),
        ("5", {"GPU": 2}, False, 0),
    ]


@pytest.mark.parametrize("device", ["auto", "cuda", "cuda:all", "cuda:h200"])
def test_one_kind_of_card_is_taken_whole(device: str) -> None:
    nodes = living([TAGGED, PLAIN])
    assert card_of(device, nodes) == "H200"
    assert [n.devices("H200") for n in nodes] == [8, 0]


def test_cards_do_not_mix() -> None:
    nodes = living([TAGGED, FOUND])
    with pytest.raises(DeviceError, match="A100 and H200"):
        card_of("auto", nodes)
    assert card_of("cuda:A100", nodes) == "A100"
    with pytest.raises(DeviceError, match="no node has a B200"):
        card_of("cuda:B200", nodes)


def test_without_gpus_each_node_is_a_device() -> None:
    assert card_of("auto", living([PLAIN])) == ""
    assert RayNode("3", "", 16).devices("") == 1
    assert RayNode("head", "", 0).devices("") == 0
    with pytest.raises(DeviceError, match="no node of the cluster has a GPU"):
        card_of("cuda", living([PLAIN]))


@pytest.mark.parametrize("device", ["gpu", "cuda:1", "cpu:2"])
def test_what_a_cluster_cannot_be_asked(device: str) -> None:
    with pytest.raises(UsageError, match="means nothing on a cluster"):
        card_of(device, living([TAGGED]))
