"""The vector for forecasters across tasks, and the same facts as sentences."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest

from forewarp.core.values import Candidate, Target
from forewarp.inspection.features.vector import VECTOR_VERSION, columns, matrix, vector
from forewarp.surrogate import evidence_text

GPU = Target("g", "cuda", "sm_90", 132, 4.8e12, 67e12, 989e12, 60 << 20, 232448)
CUDA, TRITON = Candidate("", "cuda", {"THREADS": 256, "VEC": 4}), Candidate("", "triton")
FACTS = {
    "registers": 51.0,
    "stack_bytes": 0.0,
    "shared_bytes": 116224.0,
    "threads": 256.0,
    "blocks": 264.0,
    "waves": 0.5,
    "tail": 0.5,
    "occupancy": 0.25,
    "launches": 1.0,
    "calls": 0.0,
    "bytes_per_thread": 128.0,
    "floor_s": 2e-5,
    "flops_per_byte": 3.0,
    "instructions": 200.0,
    "loop_share": 0.4,
    "mix.global_load": 0.04,
    "mix.tensor": 0.005,
    "mix.fp32": 0.5,
    "width.global_load": 128.0,
}


def test_ratios_and_logarithms() -> None:
    found = vector(FACTS, 2, TRITON, GPU, anchor_s=8e-5)
    assert found["waves"] == -1.0
    assert found["registers"] == pytest.approx(0.2)
    assert found["shared"] == 0.5
    assert found["blocks"] == 1.0
    assert found["floor"] == 1.0
    assert found["anchor"] == 2.0
    assert found["load_width"] == 7.0
    assert found["problems"] == 2.0
    assert (found["language.triton"], found["language.cuda"]) == (1.0, 0.0)
    # 8 loads of 16 bytes a thread, and 128 bytes of the task a thread: each is loaded once.
    assert found["loaded"] == pytest.approx(0.0)


def test_the_same_launch_of_a_task_twice_as_large_looks_the_same_but_for_its_size() -> None:
    larger = FACTS | {"floor_s": 4e-5, "blocks": 528.0, "waves": 1.0}
    one, other = vector(FACTS, 0, CUDA, GPU), vector(larger, 0, CUDA, GPU)
    differing = {name for name in one if one[name] != other[name] and not math.isnan(one[name])}
    # A launch of less than one wave waits as long as a full one.
    assert differing == {"waves", "blocks", "floor", "moved", "work.latency"}


def test_what_is_not_known_is_missing() -> None:
    found = vector({}, 0, Candidate("class ModelNew: ...", "python"), GPU)
    assert math.isnan(found["waves"])
    assert math.isnan(found["mix.tensor"])
    assert math.isnan(found["anchor"])
    assert found["language.python"] == 1.0


def test_a_class_without_instructions_is_zero() -> None:
    assert vector(FACTS, 0, CUDA, GPU)["mix.atomic"] == 0.0


def test_rows_become_an_array_in_the_order_of_the_columns() -> None:
    table = matrix([vector(FACTS, 0, CUDA, GPU), {}])
    assert table.shape == (2, len(columns()))
    assert table[0, list(columns()).index("occupancy")] == 0.25
    assert np.isnan(table[1]).all()


def test_the_document_lists_the_columns() -> None:
    text = (Path(__file__).parents[3] / "docs" / "inspecting.md").read_text().partition("\n## Features\n")[2]
    assert f"version {VECTOR_VERSION}." in text
    first = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    listed = [name for cell in first for name in re.findall(r"`([^`]+)`", cell)]
    assert listed == list(columns())


def test_facts_as_sentences() -> None:
    text = "\n".join(evidence_text.lines(FACTS))
    assert "1 launch; the main one has 264 blocks of 256 threads, 0.5 waves, 50% idle in the tail" in text
    assert "51 registers, 116224 bytes of shared memory, no local memory, occupancy 25%" in text
    assert "fp32 50%" in text
    assert "tensor 0.5%" in text
    assert "global loads of 128 bits on average" in text
    assert "Roofline floor 20 µs; 3 operations per byte" in text
    uncounted = evidence_text.lines({**FACTS, "flops_per_byte": 0.0})
    assert "Roofline floor 20 µs" in uncounted


def test_facts_of_another_kind_are_listed() -> None:
    assert evidence_text.lines({"b": 2.0, "a": 12345.6}) == ["a = 12346, b = 2"]
    several = {**FACTS, "kernel.rows.registers": 32.0, "kernel.rows.threads": 256.0, "kernel.rows.occupancy": 0.5}
    several |= {"kernel.rows.instructions": 99.0, "kernel.rows.times": 3.0, "kernel.rows.argument_bytes": 2e6}
    assert evidence_text.lines(several)[-1] == (
        "Kernel rows: 3 times, an unknown number of blocks of 256 threads, 32 registers, 0 bytes of shared memory, "
        "occupancy 50%, 99 instructions, tensors of 2 MB"
    )
    assert evidence_text.lines({}) == []
