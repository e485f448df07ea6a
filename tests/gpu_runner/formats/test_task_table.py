"""Mistakes in a `task.toml`: each is a `TaskError` with file, line, key and what is expected."""

from __future__ import annotations

import contextlib
import random
import shutil
from pathlib import Path

import pytest

from forewarp.cli.main import main
from forewarp.core.errors import TaskError
from forewarp.core.values import Workload
from forewarp.gpu_runner.formats import task as tasks

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    shutil.copytree(ROOT / "tasks/softmax", made)
    return made


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("title = softmax", "line 1", "not valid TOML"),
        ("perturb = true\n[workloads.cpu\n", "line 2", "not valid TOML"),
        ("title = 3", "line 1", "title must be a line of text, got 3"),
        ("\n\nperturb = 0", "line 3", "perturb must be true or false, got 0"),
        ('allow_tf32 = "yes"', "line 1", "allow_tf32 must be true or false, got 'yes'"),
        ('mode = "test"', "line 1", 'mode must be "train" or "eval"'),
        ("mode = [1]", "line 1", 'mode must be "train" or "eval"'),
        ("family = 2", "line 1", "family must be a name"),
        ('gradients = "all"', "line 1", 'gradients must be "only", for gradients'),
        ("tolerance = 1e-3", "line 1", "tolerance must be a table with rtol and atol"),
        ("[tolerance]\nrtol = 1e-3", "line 1", "tolerance must be a table with rtol and atol"),
        ("[tolerance]\nrtol = 1e-3\natol = 'small'", "line 3", "tolerance.atol must be a number"),
        ("[tolerance]\nrtol = nan\natol = 1", "line 2", "tolerance.rtol must be a number"),
        ("[tolerance]\nrtol = -1\natol = 1", "line 2", "tolerance.rtol must be a number that is not negative"),
        ("[tolerance]\nrtol = true\natol = 1", "line 2", "tolerance.rtol must be a number"),
        ("[tolerance]\nrtol = 1\natol = 1\netol = 2", "line 4", "there is no key tolerance.etol"),
        ("workloads = 3", "line 1", "workloads must be tables"),
        ("[workloads]\ncpu = 3", "line 2", "workloads.cpu must be a table"),
        ("[workloads.gpu]\na = {N = 1}", "line 1", "there is no key workloads.gpu"),
        ("[workloads.cpu]\na = {N = 1}\nb = 7", "line 3", "workloads.cpu.b must be a table"),
        ("[workloads.cuda]\na = {N = 1}\nb = {N = 1979-05-27}", "line 3", "workloads.cuda.b.N must be a number"),
        ("[workloads.cuda]\nb = {N = [[1], [2]]}", "line 2", "workloads.cuda.b.N must be a number"),
        ("[workloads.cuda]\nb = {'a-b' = 1}", "line 2", "'a-b' is no name of a constant"),
        ("title = 'x'\nperturbe = false", "line 2", "there is no key perturbe"),
        ("colour = 'red'", "line 1", "there is no key colour"),
    ],
)
def test_a_mistake_is_told_with_its_line_and_key(folder: Path, text: str, line: str, said: str) -> None:
    (folder / "task.toml").write_text(text)
    with pytest.raises(TaskError) as e:
        tasks.load(str(folder))
    assert e.value.message.startswith(str(folder / "task.toml"))
    assert line in e.value.message
    assert said in e.value.message


def test_a_file_that_is_no_utf8(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "task.toml").write_bytes('title = "a"\nfamily = "é"'.encode("latin-1"))
    with pytest.raises(TaskError, match=r"task\.toml, line 2: the byte 0xe9 is no UTF-8") as e:
        tasks.load(str(folder))
    assert "UTF-8" in e.value.hint
    assert main(["forecast", str(folder), str(folder / "reference.py")]) == 2
    assert "this is a bug" not in capsys.readouterr().err


@pytest.mark.parametrize("text", ["title = " + "9" * 5000, "workloads = " + "[" * 5000, "\0", "a" * 100])
def test_what_the_toml_reader_itself_stumbles_over(folder: Path, text: str) -> None:
    (folder / "task.toml").write_text(text)
    with pytest.raises(TaskError, match=r"task\.toml"):
        tasks.load(str(folder))


def test_random_bytes_never_raise_anything_else(folder: Path) -> None:
    good = (ROOT / "tasks/softmax/task.toml").read_bytes()
    for seed in range(400):
        rng = random.Random(seed)
        text = bytearray(good)
        for _ in range(rng.choice((1, 3, 30))):
            text[rng.randrange(len(text))] = rng.choice((rng.randrange(256), *b'"[]{}=.\n#,1'))
        (folder / "task.toml").write_bytes(text)
        with contextlib.suppress(TaskError):
            tasks.load(str(folder))


def test_every_kind_of_constant_is_read(folder: Path) -> None:
    (folder / "task.toml").write_text(
        '[workloads.cpu]\none = {N = 3, X = 0.5, D = "bfloat16", B = true, L = [1, 2], S = ["a"]}\n', newline="\r\n"
    )
    made = tasks.load(str(folder)).workloads["cpu"]
    assert made == (Workload("one", {"N": 3, "X": 0.5, "D": "bfloat16", "B": True, "L": [1, 2], "S": ["a"]}),)
