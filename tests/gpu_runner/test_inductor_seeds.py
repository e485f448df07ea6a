"""Seed kernels by torch's Inductor on the CPU device: confined, compiled, measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from forewarp.core.errors import TaskError
from forewarp.core.protocols import SeedMaker
from forewarp.core.values import Candidate, Task
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import task as tasks

pytestmark = pytest.mark.slow

REFERENCE = """
import torch

SIZE = 64


class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, size)
        self.norm = torch.nn.BatchNorm1d(size)

    def forward(self, x):
        return torch.softmax(self.norm(torch.nn.functional.gelu(self.linear(x))), dim=1)


def get_inputs():
    return [torch.randn(512, SIZE)]


def get_init_inputs():
    return [SIZE]
"""
LIMITS = Limits(time_s=0.05, looks=(4, 8))


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory):
    made = LocalExecutor(detect_cpu(), limits=LIMITS, cache=tmp_path_factory.mktemp("cache"))
    yield made
    made.close()


def task_of(reference: str, **workloads: dict[str, int]) -> Task:
    return tasks.from_source(reference, "small", workloads=workloads or {"small": {"SIZE": 128}})


def assert_right(executor: LocalExecutor, task: Task, candidate: Candidate) -> None:
    measured = executor.measure(task, candidate, executor.compile(task, candidate))
    assert measured.status == "ok", measured.log


def test_generated_code_is_right_with_each_choice_and_comes_first(executor: LocalExecutor) -> None:
    assert isinstance(executor, SeedMaker)
    task = task_of(REFERENCE)
    generated, compiled = executor.make_seeds(task)
    assert "cpp_pybinding" in generated.source
    assert "extern_kernels" in generated.source  # with library calls
    assert {"THREADS", "CONTRACT"} == set(generated.tunables)
    assert "torch.compile" in compiled.source
    one = Candidate(generated.source, "python", {"THREADS": 1, "CONTRACT": 1})
    frozen = Candidate(compiled.source, "python", dict(compiled.tunables) | {"FREEZING": 1})
    for candidate in (generated, one, frozen):
        assert_right(executor, task, candidate)
    assert executor.make_seeds(task) == (generated, compiled)  # from the cache


def test_where_code_for_one_shape_does_not_do_the_module_says_so_and_compiles_itself(executor: LocalExecutor) -> None:
    task = task_of(REFERENCE, even={"SIZE": 32}, odd={"SIZE": 33})
    (compiled,) = executor.make_seeds(task)
    assert "several workloads" in compiled.source
    assert_right(executor, task, compiled)


def test_several_graphs_and_prints_are_no_reason_to_refuse(executor: LocalExecutor) -> None:
    task = task_of(REFERENCE.replace("return torch.softmax", "print('here')\n        return torch.softmax"))
    (compiled,) = executor.make_seeds(task)
    assert "# No module of Inductor's generated code: " in compiled.source
    assert_right(executor, task, compiled)


def test_a_reference_that_fails_is_to_blame_itself(executor: LocalExecutor) -> None:
    failing = REFERENCE.replace("return torch.softmax", "raise ValueError('no')\n        return torch.softmax")
    with pytest.raises(TaskError, match=r"the reference of small cannot be run: .*ValueError: no") as caught:
        executor.make_seeds(task_of(failing))
    assert "Inductor" not in caught.value.message


def test_an_error_of_the_device_and_a_silent_end_are_named(executor: LocalExecutor) -> None:
    for cause, named in (
        ("raise RuntimeError('CUDA error: out of memory')", "CUDA error: out of memory"),
        (
            "import os; os.write(2, b'the driver is gone\\n'); os._exit(1)",
            r"left with exit status 1(: |\n)the driver is gone",
        ),
    ):
        with pytest.raises(TaskError, match=named):
            executor.make_seeds(
                task_of(REFERENCE.replace("return torch.softmax", f"{cause}\n        return torch.softmax"))
            )


def test_without_a_compiler_the_reason_and_the_way_out_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", str(tmp_path / "no-compiler"))
    executor = LocalExecutor(detect_cpu(), limits=LIMITS, cache=tmp_path)
    with pytest.raises(TaskError, match=r"Inductor cannot compile its reference: .*no-compiler") as caught:
        executor.make_seeds(task_of(REFERENCE))
    executor.close()
    assert "--seed-kernel FILE" in caught.value.hint


def test_code_of_a_reference_runs_confined_when_it_is_compiled(executor: LocalExecutor, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("treasure")
    reading = REFERENCE.replace("import torch\n", f"import torch\nopen({str(secret)!r}).read()\n", 1)
    with pytest.raises(TaskError, match=r"PermissionError|No such file"):
        executor.make_seeds(task_of(reading))
