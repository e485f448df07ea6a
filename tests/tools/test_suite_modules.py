from __future__ import annotations

import ast

import pytest
import torch
from support import small_tasks
from torch import nn

from forewarp.core.values import Task
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools import suite_modules

SOURCE = """
import torch
import torch.nn as nn


class Base(nn.Module):
    pass


class Model(Base):
    kinds: "list[Model]" = []

    def __init__(self, n):
        super(Model, self).__init__()
        Model.kinds.append(n)
        self.weight = nn.Parameter(torch.ones(n))

    def forward(self, x):
        return x * self.weight


def make() -> Model:
    return Model(2)


def get_inputs():
    return [torch.ones(2)]


def get_init_inputs():
    return [2]
"""


def run(source: str) -> dict[str, object]:
    space: dict[str, object] = {"__name__": "candidate"}
    exec(compile(source, "candidate.py", "exec"), space)
    return space


def test_the_reference_is_renamed_wherever_its_name_stands() -> None:
    made = suite_modules.identical(tasks.from_source(SOURCE, "t"))
    assert made.language == "python"
    names = {n.id for n in ast.walk(ast.parse(made.source)) if isinstance(n, ast.Name)}
    assert "Model" not in names
    space = run(made.source)
    assert "Model" not in space
    model = space["make"]()  # type: ignore[operator]
    assert type(model).__name__ == "ModelNew"
    assert torch.equal(model(torch.ones(2)), torch.ones(2))


def test_the_compiled_reference_keeps_its_parameters(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[nn.Module] = []
    # Torch's own takes ten seconds to import its compiler.
    monkeypatch.setattr(nn.Module, "compile", lambda self: seen.append(self))
    space = run(suite_modules.compiled(tasks.from_source(SOURCE, "t")).source)
    model = space["ModelNew"](2)  # type: ignore[operator]
    assert set(model.state_dict()) == {"weight"}
    assert seen == [model]


def test_a_gpu_mode_reference_gets_a_submissions_name() -> None:
    reference = "def ref_kernel(data):\n    return data + 1\n"
    task = Task("t", "t", reference, small_tasks.small_task().workloads, format="gpumode")
    assert run(suite_modules.identical(task).source)["custom_kernel"](1) == 2  # type: ignore[operator]
    assert "torch.compile(ref_kernel)" in suite_modules.compiled(task).source
