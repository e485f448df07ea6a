"""Interfaces of tasks, and kernels to begin with, which compile and are passed what the task has."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest

from forewarp.core.values import Candidate, Language
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.interface import format_of, rules_of, task_interface
from forewarp.tools.parts import Place
from forewarp.tools.session import Executors

REFERENCE = """\
import torch

class Base(torch.nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(dim, eps=eps)
    def forward(self, n, scale):
        return self.norm(n) * scale, (n > 0).sum(dim=1)

class Model(Base):
    pass

def get_inputs():
    return [torch.randn(6, 4), 0.5]

def get_init_inputs():
    return [4, 1e-5]
"""


@pytest.fixture(scope="module")
def executors() -> Generator[Executors]:
    with Executors() as kept:
        yield kept


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "norm.py"
    file.write_text(REFERENCE)
    return str(file)


def test_an_interface_names_all_that_is_passed(path: str, executors: Executors) -> None:
    found = task_interface(path, Place(device="cpu"), None, executors)
    assert (found.language, found.problem) == ("cpp", "")
    assert found.interface is not None
    # `n` is what the skeleton calls the number of elements.
    assert found.interface.inputs == ["n_: float32[6, 4]", "scale: 0.5"]
    assert found.interface.outputs == ["out0: float32[6, 4]", "out1: int64[6]"]
    assert "norm.weight: float32[4]" in found.interface.parameters
    assert found.interface.numbers == {"init0": 4, "init1": 1e-5}
    assert found.interface.c_types["int64"] == "int64_t"
    assert ":i64 int64_t" in found.interface.c_types["numbers"]


def test_a_skeleton_compiles_as_it_is(path: str, executors: Executors) -> None:
    place = Place(device="cpu")
    found = task_interface(path, place, "cpp", executors)
    assert found.start is not None
    task = tasks.load(path)
    build = executors.get(place, task).compile(task, Candidate(found.start.source, "cpp"))
    assert build.status == "ok", build.log
    assert "const int64_t* norm_num_batches_tracked" in found.start.source
    assert "float scale, int init0, float init1, int64_t n)" in found.start.source


def test_a_module_begins_as_the_reference(path: str, executors: Executors) -> None:
    found = task_interface(path, Place(device="cpu"), "python", executors)
    assert found.start is not None
    assert "class ModelNew(Base)" in found.start.source
    assert found.interface is not None
    assert found.interface.c_types == {}


def test_a_bundled_task_begins_with_its_own_kernel(executors: Executors) -> None:
    found = task_interface("softmax", Place(device="cpu"), None, executors)
    assert found.start is not None
    assert (found.start.source, found.start.note) == (found.facts.seeds["cpp"], "")


def test_for_a_gpu_it_says_what_is_known_to_help(executors: Executors) -> None:
    found = task_interface("softmax", Place(device="replay"), "cuda", executors)
    assert found.advice.startswith("### One pass over scores: online softmax")
    assert "### Memory-bound" in found.advice
    assert len(found.advice) <= 2_000
    assert not task_interface("softmax", Place(device="cpu"), "cpp", executors).advice


@pytest.mark.parametrize("language", ["cpp", "cuda", "triton", "python"])
def test_a_format_has_rules_and_an_example(language: str) -> None:
    text = format_of(language)  # pyright: ignore[reportArgumentType]
    assert "A complete example" in text
    assert ("class ModelNew" in text) is (language == "python")
    assert ("[[launch]]" in text) is (language != "python")


@pytest.mark.parametrize("language", ["cpp", "cuda", "triton"])
def test_the_short_rules_say_what_the_long_ones_say(language: Language) -> None:
    words = re.findall(
        r"\[+\w+\]+|\b(?:constraints|when|cdiv|next_pow2|rsqrt|init0|num_warps|block|shared)\b", rules_of(language)
    )
    assert len(words) > 10
    assert all(word in format_of(language) for word in words)
