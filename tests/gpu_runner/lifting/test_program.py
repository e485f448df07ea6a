"""Programs as values: where tensors lie, how compiled code travels, and what is refused."""

from __future__ import annotations

import json
import os

import pytest
import torch

from forewarp.core import serde
from forewarp.gpu_runner.lifting.graph import Edge, GraphNode, KernelLaunch
from forewarp.gpu_runner.lifting.program import Program, Programs, TensorPlace, from_data, pack, unpack
from forewarp.gpu_runner.lifting.window import Chunk


def test_a_place_reaches_from_its_first_element_to_its_last() -> None:
    assert TensorPlace(0, (4, 8), (8, 1), "float32").size == 4 * 8 * 4
    assert TensorPlace(0, (4, 8), (16, 1), "float16").size == (3 * 16 + 8) * 2
    assert TensorPlace(0, (0, 8), (8, 1), "float32").size == 0


def test_a_place_knows_whether_its_tensor_ends_its_block() -> None:
    whole = torch.zeros(4, 8)
    assert TensorPlace.of(whole).last
    assert TensorPlace.of(whole.t()).last
    assert not TensorPlace.of(whole[:, :4]).last
    assert TensorPlace.of(whole[:, 4:]).last


def test_images_come_back_as_they_were() -> None:
    images = [b"one", b"", b"another"]
    assert unpack(pack(images), [3, 0, 7]) == images


@pytest.mark.parametrize("sizes", [[3], [3, 8], [11, -1]])
def test_images_of_other_sizes_are_refused(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="size"):
        unpack(pack([b"one", b"another"]), sizes)


def test_programs_survive_the_way_through_json() -> None:
    launch = KernelLaunch("kernel", 0, (1, 2, 3), (32, 1, 1), 0, ("00ff",), attributes=((4, "01"),))
    nodes = (GraphNode("launch", launch), GraphNode("fill", parameters="00" * 8), GraphNode("join"))
    program = Program("w", nodes, (Edge(0, 1, "00" * 8),), (TensorPlace(1, (2,), (1,), "float32"),), ())
    programs = Programs((program,), (Chunk(0, 2 << 20),), (7,))
    assert from_data(json.loads(json.dumps(serde.to_data(programs)))) == programs


@pytest.mark.parametrize("data", [None, 3, {}, {"programs": [{}], "chunks": [], "images": []}, {"programs": 7}])
def test_what_no_program_is_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="program"):
        from_data(data)


def test_the_file_of_images_is_closed() -> None:
    before = len(os.listdir("/proc/self/fd"))
    unpack(pack([b"code"]), [4])
    assert len(os.listdir("/proc/self/fd")) == before
