"""Tasks that are sound, and tasks that nobody can be right or wrong on, on the real CPU device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from support.recorded_pool import record

from forewarp.core.errors import TaskError, UsageError
from forewarp.core.protocols import Executor
from forewarp.core.values import Task
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.parts import Place
from forewarp.tools.session import Executors
from forewarp.tools.validate_task import ValidateRequest, ValidateResult, WorkloadSoundness, validate_task

pytest.importorskip("torch")

# Each mode is a workload of one task, which is described once.
MODES = {
    "softmax": ("torch.softmax(self.linear(x), dim=-1)", "torch.randn(32, 64)"),
    "one_element": ("torch.softmax(x, dim=1)", "torch.randn(64, 1)"),
    "mean_of_softmax": ("torch.softmax(x, dim=1).mean(dim=1)", "torch.randn(32, 64)"),
    "dead_relu": ("torch.relu(x)", "-torch.rand(32, 64) - 0.1"),
    "zero_weights": ("x @ (0 * self.linear.weight)", "torch.randn(32, 64)"),
    "drowned": ("1.0 + 1e-7 * x", "torch.randn(32, 64)"),
    "cancelled": ("x.max(dim=1, keepdim=True).values - x.max()", "torch.randn(1, 64)"),
    "tiny": ("torch.softmax(x, dim=1)", "torch.rand(4, 50000)"),
    "half": ("x.mul(x).softmax(-1)", "torch.randn(32, 64, dtype=torch.bfloat16)"),
    "two_outputs": ("(torch.relu(-x.abs()), x.argmax(dim=1))", "torch.randn(32, 64)"),
    "not_a_number": ("torch.log(x)", "torch.randn(32, 64)"),
    "writes": ("x.relu_().sum(dim=1)", "torch.randn(32, 64)"),
    "idle": ("x + 1", "torch.randn(32, 64), torch.randn(32, 64), torch.ones(32, 64)"),
    "same_each_time": ("x * more[0]", "torch.randn(32, 64), torch.full((64,), 2.0)"),
    "random": ("nn.functional.dropout(x, 0.5)", "torch.randn(32, 64)"),
    "counter": ("self.counted(x)", "torch.randn(32, 64)"),
    "state": ("self.running(x)", "torch.randn(32, 64)"),
    "empty": ("(x * 2, x[:0])", "torch.randn(32, 64)"),
    "constant": ("(x * 2, torch.arange(9.0, device=x.device))", "torch.randn(32, 64)"),
    "refuses": ("self.positive(x)", "torch.rand(32, 64) + 0.5"),
    "settles": ("self.settled(x)", "torch.randn(32, 64)"),
    "year": ("x.exp() * time.gmtime().tm_year", "torch.randn(32, 64)"),
    "process": ("x.exp() * (1 + os.getpid())", "torch.randn(32, 64)"),
    "dates": ("x.exp() * datetime.now().year", "torch.randn(32, 64)"),
    "dice": ("x.exp() * (1 + 1e-9 * random.random())", "torch.randn(32, 64)"),
    "one_draw": ("x.exp()", "torch.full((32, 64), 2.0)"),
    "reshaped": ("x.view(-1)", "torch.randn(32, 64)"),
    "some_rows": ("x[:4].exp()", "torch.randn(32, 64)"),
    "faint": ("x.exp() + 1e-6 * more[0]", "torch.randn(32, 64), torch.randn(32, 64)"),
    "number": ("x.exp()", "torch.randn(32, 64), 3"),
    "used_number": ("x.exp() * more[0]", "torch.randn(32, 64), 3"),
}

REFERENCE = f"""
import os
import random
import time
from datetime import datetime

import torch
import torch.nn as nn

MODE = "softmax"

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(64, 64)
        self.calls = 0
        self.seen = []
        self.norm = nn.BatchNorm1d(64)

    def counted(self, x):
        self.calls += 1
        return x * self.calls

    def settled(self, x):
        self.seen.append(len(self.seen))
        return x.exp() * min(len(self.seen), 3)

    def running(self, x):
        return self.norm(x) * self.norm.num_batches_tracked

    def positive(self, x):
        assert (x > 0).all(), "not positive"
        return x.log()

    def forward(self, x, *more):
{
    "".join(
        f'''
        if MODE == "{mode}":
            return {forward}'''
        for mode, (forward, _) in MODES.items()
    )
}
        raise ValueError("no such thing")

def get_inputs():
{
    "".join(
        f'''
    if MODE == "{mode}":
        return [{inputs}]'''
        for mode, (_, inputs) in MODES.items()
    )
}
    return [torch.zeros(1)]

def get_init_inputs():
    return []
"""


class Shared(Executors):
    """Takes the CPU's executor from other tests, and leaves it open."""

    def __init__(self, cpu: Executor) -> None:
        super().__init__()
        self._cpu = cpu

    def get(self, place: Place, task: Task) -> Executor:
        return self._cpu if place == Place(device="cpu") else super().get(place, task)


@pytest.fixture(scope="module")
def executors(cpu_executor: LocalExecutor) -> Iterator[Executors]:
    with Shared(cpu_executor) as kept:
        yield kept


def task_of(folder: Path, *modes: str) -> str:
    (folder / "reference.py").write_text(REFERENCE)
    lines = "".join(f'{mode} = {{ MODE = "{mode}" }}\n' for mode in modes)
    (folder / "task.toml").write_text(f'title = "all kinds"\n[workloads.cpu]\n{lines}[workloads.cuda]\n{lines}')
    return str(folder)


def validate(task: str, executors: Executors, device: Literal["cpu", "cuda"] = "cpu") -> ValidateResult:
    return validate_task(ValidateRequest(task=task, place=Place(device=device)), executors=executors)


# The null candidates that each lets through, others aside.
DEGENERATE: dict[str, set[str]] = {
    "one_element": {"ones", "previous output", "rows shifted by one"},
    "mean_of_softmax": {"mean of the output", "previous output"},
    "dead_relu": {"zeros", "rows shifted by one", "sign flipped"},
    "zero_weights": {"zeros", "previous output"},
    "drowned": {"ones", "mean of the output", "mean of each row"},
    "cancelled": {"zeros", "previous output"},
}


@pytest.fixture(scope="module")
def degenerate(executors: Executors, tmp_path_factory: pytest.TempPathFactory) -> ValidateResult:
    """The result of validating a task of which every shape is degenerate."""
    return validate(task_of(tmp_path_factory.mktemp("task"), *DEGENERATE), executors)


@pytest.fixture(scope="module")
def found(executors: Executors, tmp_path_factory: pytest.TempPathFactory) -> ValidateResult:
    """The result of validating a task with all the other modes."""
    others = [mode for mode in MODES if mode not in DEGENERATE]
    return validate(task_of(tmp_path_factory.mktemp("task"), *others), executors)


def workload(found: ValidateResult, mode: str) -> WorkloadSoundness:
    (one,) = (w for w in found.workloads if w.name == mode)
    return one


def let_through(one: WorkloadSoundness) -> set[str]:
    return {n.name for n in one.nulls if n.passed}


def test_a_sound_task_turns_every_null_down(found: ValidateResult) -> None:
    one = workload(found, "softmax")
    assert one.sound
    assert one.oracle == "fp64"
    assert one.notes == []
    errors = {n.name: n.error for n in one.nulls}
    assert set(errors) >= {"in TF32", "in fp16", "in bf16", "input 0 passed through", "mean of each row"}
    assert errors["unwritten"] is None
    assert errors["zeros"] is not None
    assert errors["zeros"] > 100.0
    assert all(n.turned_down_on for n in one.nulls)


@pytest.mark.parametrize(("mode", "names"), DEGENERATE.items())
def test_a_degenerate_workload_is_named(degenerate: ValidateResult, mode: str, names: set[str]) -> None:
    one = workload(degenerate, mode)
    assert not one.sound
    assert names <= let_through(one)
    assert degenerate.verdict == "degenerate"
    assert "Degenerate" in degenerate.summary
    (said,) = (part for part in degenerate.summary.split("; ") if f"{mode}: " in part)
    assert all(name in said for name in names)


def test_small_outputs_are_sound_though_kernelbench_cannot_tell_them_from_constants(found: ValidateResult) -> None:
    one = workload(found, "tiny")
    assert let_through(one) == set()
    fooled = {n.name for n in one.nulls if n.passes_kernelbench}
    assert {"zeros", "mean of the output", "previous output"} <= fooled


def test_half_precision_must_tell_fp8(found: ValidateResult) -> None:
    one = workload(found, "half")
    assert one.sound
    names = [n.name for n in one.nulls]
    assert "in fp8" in names
    assert "in TF32" not in names


def test_each_output_is_looked_at(found: ValidateResult) -> None:
    passed = {(n.name, n.output) for n in workload(found, "two_outputs").nulls if n.passed}
    assert ("zeros", 0) in passed
    assert not any(output == 1 for _, output in passed)


def test_what_the_reference_writes_is_an_output_too(found: ValidateResult) -> None:
    one = workload(found, "writes")
    assert one.sound
    assert {n.output for n in one.nulls} == {0, 1, None}


def test_an_input_that_no_output_depends_on_is_a_problem(found: ValidateResult) -> None:
    one = workload(found, "idle")
    assert one.problems == [
        "input 1 does not change any output: a kernel may leave it out",
        "input 2 does not change any output: a kernel may leave it out",
    ]
    assert one.notes == ["other weights do not change any output"]


def test_an_input_that_is_the_same_in_each_draw_may_matter(found: ValidateResult) -> None:
    assert workload(found, "same_each_time").sound


def test_a_reference_that_draws_random_numbers_is_not_sound(found: ValidateResult) -> None:
    one = workload(found, "random")
    assert not one.sound
    assert one.random == ["bernoulli_"]
    assert one.problems == []
    assert not any(n.passed for n in one.nulls)


def test_a_reference_that_counts_its_calls_is_a_problem(found: ValidateResult) -> None:
    one = workload(found, "counter")
    assert not one.sound
    assert "at another call, with torch seeded alike: it changes calls" in one.problems[0]


def test_what_is_kept_between_calls_is_a_problem(found: ValidateResult) -> None:
    one = workload(found, "settles")
    assert not one.sound
    assert "the reference gives other outputs when it is loaded anew: it keeps something" in one.problems[0]


@pytest.mark.parametrize(
    ("mode", "call"),
    [("year", "time.gmtime"), ("process", "os.getpid"), ("dates", "datetime.now"), ("dice", "random.random")],
)
def test_what_no_kernel_is_given_is_a_problem(found: ValidateResult, mode: str, call: str) -> None:
    one = workload(found, mode)
    assert not one.sound
    assert f"the reference calls {call} in each call" in one.problems[0]
    assert len(one.problems) == 1


def test_inputs_that_are_the_same_in_each_draw_are_a_problem(found: ValidateResult) -> None:
    assert (
        "the inputs are the same in each draw: a kernel may keep its first result"
        in workload(found, "one_draw").problems
    )


def test_a_reference_that_returns_its_input_is_degenerate_in_any_shape(found: ValidateResult) -> None:
    assert "input 0 passed through" in let_through(workload(found, "reshaped"))
    assert found.verdict == "degenerate"


def test_an_input_that_changes_less_than_the_tolerance_is_a_problem(found: ValidateResult) -> None:
    (problem,) = workload(found, "faint").problems
    assert problem == "input 1 changes outputs by less than the tolerance: a kernel may leave it out"


def test_halves_of_inputs_that_no_output_depends_on_are_notes(found: ValidateResult) -> None:
    one = workload(found, "some_rows")
    assert one.sound
    assert "the last half of input 0 along dimension 0 does not change any output" in one.notes
    assert not any("first half" in n or "dimension 1" in n for n in one.notes)


def test_a_number_that_no_output_depends_on_is_a_note(found: ValidateResult) -> None:
    idle = "the number 3 (value 1 of the inputs) does not change any output"
    assert idle in workload(found, "number").notes
    assert idle not in workload(found, "used_number").notes


def test_state_that_is_put_back_is_a_note(found: ValidateResult) -> None:
    one = workload(found, "state")
    assert one.sound
    changed = "norm.running_mean, norm.running_var, norm.num_batches_tracked"
    assert f"the reference changes its state, which is put back: {changed}" in one.notes


def test_outputs_without_elements_and_constant_ones_are_problems(found: ValidateResult) -> None:
    assert workload(found, "empty").problems == ["output 1 has no elements"]
    assert "output 1 does not depend on the inputs" in workload(found, "constant").problems


def test_what_the_reference_says_of_perturbed_inputs_is_a_note(found: ValidateResult) -> None:
    one = workload(found, "refuses")
    assert any("raised AssertionError: not positive" in n for n in one.notes)


def test_a_random_task_is_said_to_be_one(executors: Executors, tmp_path: Path) -> None:
    result = validate(task_of(tmp_path, "random", "softmax"), executors)
    assert result.verdict == "random"
    assert result.summary.startswith("Random: the reference of")
    assert "(bernoulli_)" in result.summary


def test_nan_is_a_problem(found: ValidateResult) -> None:
    one = workload(found, "not_a_number")
    assert not one.sound
    assert "% of the elements are NaN" in one.problems[0]


def test_a_task_is_sound_if_all_its_workloads_are(executors: Executors, tmp_path: Path) -> None:
    result = validate(task_of(tmp_path, "softmax", "half"), executors)
    assert result.verdict == "sound"
    assert result.summary.startswith(f"Sound: all {sum(len(w.nulls) for w in result.workloads)} null candidates")
    assert "on 2 shapes" in result.summary


def test_a_reference_that_fails_is_the_tasks_error(executors: Executors, tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="no such thing"):
        validate(task_of(tmp_path, "unknown"), executors)


def test_a_pool_cannot_validate(tmp_path: Path) -> None:
    recorded = record(tmp_path, every=1000)
    with pytest.raises(UsageError, match="recorded pool cannot validate"):
        validate_task(ValidateRequest(task=recorded.task, place=Place(device="replay", pool=recorded.pool)))


LARGE = {"cross_entropy", "layernorm_gelu", "rmsnorm", "softmax"}
"""Bundled tasks whose validation takes several seconds each."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name for name in tasks.bundled()]
)
def test_bundled_tasks_are_sound(executors: Executors, name: str) -> None:
    result = validate(name, executors)
    assert result.verdict == "sound", result.summary
    assert all(w.notes == [] for w in result.workloads)


@pytest.mark.gpu
@pytest.mark.timeout(300)  # tests that share a GPU wait for each other
def test_a_gpu_tells_the_same_workloads_apart(executors: Executors, found: ValidateResult, tmp_path: Path) -> None:
    there = validate(task_of(tmp_path, *MODES), executors, "cuda")
    assert {w.name for w in there.workloads if w.sound} == {w.name for w in found.workloads if w.sound}


@pytest.mark.gpu
@pytest.mark.parametrize("name", tasks.bundled())
def test_bundled_tasks_are_sound_on_a_gpu(executors: Executors, name: str) -> None:
    result = validate(name, executors, "cuda")
    assert result.verdict == "sound", result.summary
