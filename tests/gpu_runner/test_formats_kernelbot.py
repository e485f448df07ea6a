"""KernelBot's task folders: what is read from them, and what is said of those that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.core.errors import TaskError
from forewarp.core.values import Task
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpumode_vectoradd"

YAML = """
files:
  - {name: "submission.py", source: "@SUBMISSION@"}
  - {name: "reference.py", source: "reference.py"}
  - {name: "utils.py", source: "../utils.py"}
  - {name: "eval.py", source: "../eval.py"}
lang: "py"
description: |
  First line.
  Second line.
config:
  main: "eval.py"
tests:
  - {m: 3, seed: 1}
benchmarks:
  - {m: 64, n: 128, seed: 1}
  - {m: 64, n: 128, seed: 2}
  - {sizes: [8, 16], mode: "sum", fast: false}
ranking_by: "geom"
"""
REFERENCE = """
from utils import make_check
def generate_input(m, n, seed):
    pass
def ref_kernel(data):
    return data
check_implementation = make_check(ref_kernel)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "my_task"
    made.mkdir()
    (made / "task.yml").write_text(YAML)
    (made / "reference.py").write_text(REFERENCE)
    (tmp_path / "utils.py").write_text("def make_check(kernel):\n    return kernel\n")
    return made


def test_a_folder_and_its_yml_give_the_same_task(folder: Path) -> None:
    task = tasks.load(str(folder))
    assert tasks.load(str(folder / "task.yml")) == task
    assert (task.name, task.title, task.format, task.perturb) == ("my_task", "First line.", "gpumode", False)
    assert task.reference == REFERENCE
    assert set(task.files) == {"utils.py"}


def test_benchmarks_become_workloads_without_their_seeds(folder: Path) -> None:
    task = tasks.load(str(folder))
    assert task.workloads["cpu"] == task.workloads["cuda"]
    first, second = task.workloads["cuda"]
    assert (first.name, first.constants) == ("m=64 n=128", {"m": 64, "n": 128})
    assert (second.name, second.constants) == (
        "sizes=8,16 mode=sum fast=False",
        {"sizes": [8, 16], "mode": "sum", "fast": False},
    )


def test_identity_covers_helpers(folder: Path) -> None:
    before = tasks.load(str(folder)).sha256
    (folder.parent / "utils.py").write_text("def make_check(kernel):\n    return None\n")
    assert tasks.load(str(folder)).sha256 != before


def test_the_example_loads() -> None:
    task: Task = tasks.load(str(EXAMPLE))
    assert [w.constants for w in task.workloads["cpu"]] == [{"size": 1000003}, {"size": 4194304}]
    assert set(task.files) == {"task.py", "compare.py"}
    assert candidates.load(EXAMPLE / "submission.py").language == "python"


BAD = {
    "yaml": ('lang: "py"', "lang: [", "not valid YAML", "indentation"),
    "no mapping": (YAML, "- 1\n", "must be a mapping", ""),
    "unknown language": ('lang: "py"', 'lang: "rust"', "lang is 'rust'", "py and cu"),
    "no files": (YAML.partition("lang")[0], "\n", "files must be a list", ""),
    "file entry": ('{name: "utils.py", source: "../utils.py"}', "utils.py", "an entry of files is 'utils.py'", ""),
    "missing helper": (
        "../utils.py",
        "../helpers.py",
        r"its file \.\./helpers.py cannot be read",
        "relative to task.yml",
    ),
    "no submission": ('"@SUBMISSION@"', '"reference.py"', "0 submissions", "@SUBMISSION@"),
    "no reference": ('{name: "reference.py"', '{name: "other.py"', "names no reference.py", "source"),
    "no benchmarks": (YAML[YAML.index("benchmarks") :], "", "has no benchmarks", "add a list"),
    "odd benchmark": ("{m: 64, n: 128, seed: 1}", "7", r"benchmarks\[0\] is 7", ""),
    "odd argument": ("m: 64, n: 128, seed: 1", "m: {a: 1}", r"benchmarks\[0\]\.m is", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_say_what_to_do(folder: Path, name: str) -> None:
    old, new, message, hint = BAD[name]
    assert old in YAML
    (folder / "task.yml").write_text(YAML.replace(old, new, 1))
    with pytest.raises(TaskError, match=message) as caught:
        tasks.load(str(folder))
    assert hint in caught.value.hint


def test_a_cuda_reference_is_told_apart(folder: Path) -> None:
    text = YAML.replace('lang: "py"', 'lang: "cu"').replace('{name: "reference.py", source: "reference.py"}', "")
    (folder / "task.yml").write_text(text.replace("  - \n", ""))
    with pytest.raises(TaskError, match=r"no reference\.py") as caught:
        tasks.load(str(folder))
    assert "references in Python" in caught.value.hint


@pytest.mark.parametrize("function", ["generate_input", "ref_kernel", "check_implementation"])
def test_a_reference_that_lacks_a_function_is_told_which(folder: Path, function: str) -> None:
    (folder / "reference.py").write_text(
        REFERENCE.replace(f"def {function}", "def other").replace(f"{function} =", "other =")
    )
    with pytest.raises(TaskError, match=f"does not define {function}") as caught:
        tasks.load(str(folder))
    assert "check_implementation(data, output)" in caught.value.hint


def test_helpers_must_be_python(folder: Path) -> None:
    (folder.parent / "utils.py").write_text("def (:")
    with pytest.raises(TaskError, match=r"utils\.py is not a Python file"):
        tasks.load(str(folder))


def test_a_folder_with_neither_file_names_both(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"no readable task\.toml") as caught:
        tasks.load(str(tmp_path))
    assert "task.yml" in caught.value.hint


@pytest.mark.parametrize(
    "source", ["def custom_kernel(data):\n    return data\n", "x = 1\ncustom_kernel = compile(x)\n"]
)
def test_a_submission_is_python_whatever_else_it_holds(source: str) -> None:
    assert candidates.language_of(f"@triton.jit\ndef k(): ...\ntext = '__global__'\n{source}", ".py") == "python"


def test_the_documents_show_the_example_as_it_is() -> None:
    text = (EXAMPLE.parents[1] / "docs" / "tasks.md").read_text()
    for name in ("task.yml", "reference.py", "submission.py"):
        assert (EXAMPLE / name).read_text() in text
