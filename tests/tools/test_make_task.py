"""Tasks made of PyTorch functions and modules."""

from __future__ import annotations

import pytest

from forewarp.core.errors import TaskError, UsageError
from forewarp.tools.make_task import make_task, task_text
from forewarp.tools.parts import Place
from forewarp.tools.requests import TaskCall
from forewarp.tools.session import Executors

SOURCE = """\
import torch

def scaled(x, ids, *, factor=2.0, mask=None):
    return x[ids] * factor

class Gate(torch.nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(dim))

    def forward(self, x):
        return x * self.weight
"""


@pytest.mark.slow
def test_functions_and_modules_become_tasks() -> None:
    call = TaskCall(function="scaled", args="x=float32[8,4], ids=int64[3], factor=0.5")
    with Executors() as executors:
        made = make_task(SOURCE, "scaled", call, Place(device="cpu"), executors)
        gate = TaskCall(function="Gate", args="x=float16[8,4]", init="dim=4")
        module = make_task(SOURCE, "gate", gate, Place(device="cpu"), executors)
    assert made.text.startswith(SOURCE)
    assert made.interface.inputs == ["x: float32[8, 4]", "ids: int64[3]", "factor: 0.5"]
    assert made.interface.outputs == ["out: float32[3, 4]"]
    assert module.interface.inputs == ["x: float16[8, 4]"]
    assert module.interface.parameters == ["weight: float32[4]"]


@pytest.mark.parametrize(
    ("function", "args", "init", "says"),
    [
        ("scale", "x=float32[8]", "", "no function or class 'scale'"),
        ("scaled", "x=float32[8]", "", "scaled needs ids"),
        ("scaled", "x=float32[8], ids=int64[3], y=1", "", "scaled takes no y"),
        ("scaled", "x=float32[8], ids=int64[3]", "dim=4", "init is for a module's constructor"),
        ("Gate", "x=float32[8]", "", "init: Gate needs dim"),
        ("Gate", "x=float32[8]", "dim=float32[8]", "dim is a tensor"),
        ("Gate", "x=float32[8]", "4", "init cannot be read at '4'"),
        ("scaled", "x=float33[8], ids=int64[3]", "", "'float33' is no dtype"),
    ],
)
def test_what_does_not_fit_is_named(function: str, args: str, init: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        task_text(SOURCE, function, args, init)


def test_a_task_is_not_made_of_a_task() -> None:
    source = "class Model: pass\ndef get_inputs(): pass\ndef get_init_inputs(): pass\ndef f(x): pass\n"
    with pytest.raises(UsageError, match="defines Model, get_inputs, get_init_inputs already"):
        task_text(source, "f", "x=float32[8]")


def test_a_file_that_is_no_python_is_no_task() -> None:
    with pytest.raises(TaskError, match="no Python"):
        task_text("def", "f", "")
