"""Tasks that ask for gradients: what they return, which gradients there are, and how candidates are judged on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.jobs import describe_task, task_job
from support.shared_executors import limited

from forewarp.core.errors import CandidateError, TaskError
from forewarp.core.values import AskedGradients, Backward, Candidate, Task, TensorSpec, Workload
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import plan as plans
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.formats.candidate import load
from forewarp.gpu_runner.formats.skeleton import PlanNames
from forewarp.gpu_runner.worker.loading import load_problem
from forewarp.gpu_runner.worker.oracle import oracle
from forewarp.gpu_runner.worker.problem import Problem, ReferenceFailed, import_text
from forewarp.tools.parts import Place
from forewarp.tools.session import load_task

ROOT = Path(__file__).parents[1]
SMALL = Workload("small", {"ROWS": 24, "COLS": 40})
QUICK = Limits(measure_s=60, call_s=20.0, memory=2 << 30, time_s=0.02, looks=(4,))
TEXT = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(8))
        self.unused = nn.Parameter(torch.rand(3))
        self.register_buffer("scale", torch.rand(8))

    def forward(self, x, y):
        return BODY

def get_inputs():
    return INPUTS

def get_init_inputs():
    return []
"""


def task_of(body: str, inputs: str = "[torch.randn(4, 8), torch.randn(4, 8)]", asked: AskedGradients = "only") -> Task:
    text = TEXT.replace("BODY", body).replace("INPUTS", inputs)
    return tasks.from_source(text, "task", gradients=asked)


def problem_of(task: Task) -> Problem:
    return load_problem(task_job(task), task.workloads["cpu"][0], 1)


def run(task: Task) -> tuple[list[Any], list[torch.Tensor]]:
    problem = problem_of(task)
    values = problem.inputs(3, "cpu")
    with torch.no_grad():  # as the judge calls it
        return values, problem.model("cpu")(*values)


class TestReference:
    def test_gradients_are_those_of_the_outputs_given_upstream_ones(self) -> None:
        (x, y, upstream), (of_x, of_y, of_weight) = run(task_of("x * self.weight + y"))
        weight = problem_of(task_of("x")).model("cpu").state_dict()["weight"]
        torch.testing.assert_close([of_x, of_y, of_weight], [upstream * weight, upstream, (upstream * x).sum(0)])
        assert of_y.untyped_storage().data_ptr() != upstream.untyped_storage().data_ptr()
        assert y.shape == upstream.shape

    def test_too_puts_outputs_in_front(self) -> None:
        (x, y, upstream), results = run(task_of("(x + y, x.argmax())", asked="too"))
        torch.testing.assert_close(results, [x + y, x.argmax(), upstream, upstream])
        assert not any(r.requires_grad for r in results)
        assert len({r.untyped_storage().data_ptr() for r in results}) == 4

    def test_the_oracle_differentiates_in_double(self) -> None:
        task = task_of("torch.softmax(x * self.weight, -1) * y")
        values, found = run(task)
        exact, how = oracle(problem_of(task).model("cpu"), values)
        assert how == "fp64"
        for one, other in zip(found, exact, strict=True):
            assert other.dtype == torch.float64
            assert 0 < float((one - other).abs().max()) < 1e-6

    def test_a_copy_has_the_names_and_numbers_of_the_module(self) -> None:
        model = problem_of(task_of("x * self.weight + y")).model("cpu")
        assert list(model.state_dict()) == ["weight", "unused", "scale"]
        assert type(model).__name__ == "Model"


class TestSignature:
    def test_it_names_upstream_gradients_and_what_they_are_taken_of(self) -> None:
        signature = describe_task(task_of("(x.argmax(), x * self.weight * self.scale, y.detach())"))
        upstream = TensorSpec("1", (4, 8), "float32")
        assert signature.backward == Backward((upstream,), (0,), ("weight",))
        assert [s.shape for s in signature.inputs] == [(4, 8)] * 3
        assert [s.shape for s in signature.outputs] == [(4, 8), (8,)]
        assert signature.state == ()

    def test_inputs_that_require_gradients_are_chosen(self) -> None:
        task = task_of("x * y", "[torch.randn(4, 8), torch.randn(4, 8, requires_grad=True)]")
        assert describe_task(task).backward == Backward((TensorSpec("0", (4, 8), "float32"),), (1,), ())

    def test_nested_inputs_and_whole_numbers(self) -> None:
        body, inputs = 'x["a"][y] * self.weight', '[{"a": torch.randn(4, 8)}, torch.randint(4, (6,))]'
        signature = describe_task(task_of(body, inputs))
        assert signature.backward == Backward((TensorSpec("0", (6, 8), "float32"),), (0,), ("weight",))
        assert [s.dtype for s in signature.inputs] == ["float32", "int64", "float32"]

    def test_names_for_launch_plans(self) -> None:
        task = task_of("(x * self.weight, y)", asked="too")
        names = PlanNames.of(task, describe_task(task))
        assert names.inputs == ("x", "y", "grad_out0", "grad_out1")
        assert names.outputs == ("out0", "out1", "grad_x", "grad_y", "grad_weight")

    def test_a_forward_kernel_is_told_what_is_asked_for(self) -> None:
        task = tasks.load("softmax")
        kernel = next(s for s in task.seeds if s.language == "cpp")
        signature = describe_task(replace(task, gradients="only", workloads={"cpu": (SMALL,)}))
        with pytest.raises(CandidateError, match="inputs names 1 values") as caught:
            plans.resolve(plans.parse(kernel), signature, kernel.tunables)
        assert "upstream ones are its last inputs" in caught.value.hint

    def test_only_what_gradients_depend_on_has_to_be_read(self) -> None:
        block = 4 * 8 * 4
        assert describe_task(task_of("x + y")).bytes_moved == 3 * block
        assert describe_task(task_of("x * y")).bytes_moved == 5 * block
        assert describe_task(task_of("x + y", asked="too")).bytes_moved > 5 * block

    def test_without_gradients_there_is_no_task(self) -> None:
        with pytest.raises(ValueError, match="no output of forward depends on an input that has one"):
            describe_task(task_of("x.argmax()"))


class TestModules:
    def bound(self, text: str, task: Task) -> Any:
        return problem_of(task).bind(import_text(text), "cpu", {})

    def test_a_compiled_forward_of_its_own_is_called(self) -> None:
        task = task_of("x * self.weight + y")
        text = task.reference.replace("Model(", "ModelNew(").replace(
            "        self.unused", "        self.forward = lambda x, y: x * self.weight + y\n        self.unused"
        )
        values, found = run(task)
        torch.testing.assert_close(self.bound(text, task)(*values), found)

    @pytest.mark.parametrize(
        ("old", "new", "said"),
        [
            ("self.weight", "self.other", "the module has no parameter 'weight'"),
            ("x * self.weight + y", "(x * self.weight + y).detach()", "does not require grad"),
            ("x * self.weight + y", "x * self.weight.detach() + y", "to not have been used"),
        ],
    )
    def test_without_a_gradient_it_fails(self, old: str, new: str, said: str) -> None:
        task = task_of("x * self.weight + y")
        text = task.reference.replace("Model(", "ModelNew(").replace(old, new)
        with pytest.raises((ValueError, RuntimeError), match=said):
            self.bound(text, task)(*run(task)[0])


class TestMeasuring:
    FUNCTION = ROOT / "honest/kernels/norm_function.py"

    def measured(self, executor: LocalExecutor, task: str, candidate: Candidate) -> Any:
        loaded = tasks.load(str(ROOT / "cheats/tasks" / task))
        small = replace(loaded, workloads={"cpu": (SMALL,)})
        with limited(executor, QUICK) as quick:
            return quick.measure(small, candidate, quick.compile(small, candidate))

    def test_a_backward_kernel_is_right(self, cpu_executor: LocalExecutor) -> None:
        found = self.measured(cpu_executor, "norm_backward", load(ROOT / "honest/kernels/norm_backward.cpp"))
        assert found.status == "ok", found.log
        assert found.environment["oracle"] == "fp64"
        assert "mostly zeros" in found.checks

    def test_a_module_is_judged_on_outputs_and_gradients(self, cpu_executor: LocalExecutor) -> None:
        text = self.FUNCTION.read_text()
        found = self.measured(cpu_executor, "norm_step", Candidate(text, "python"))
        assert found.status == "ok", found.log
        for old, output in (("return x * scale * weight", 0), ("(grad * normal).sum(0)", 2)):
            wrong = text.replace(old, f"{old} * 1.01")
            found = self.measured(cpu_executor, "norm_step", Candidate(wrong, "python"))
            assert found.status == "incorrect"
            assert found.log.startswith(f"output {output}:")


class TestAsking:
    def test_a_flag_makes_another_task_without_the_seeds_of_the_first(self) -> None:
        plain, asked = (load_task("softmax", Place(), gradients=g) for g in (None, "only"))
        assert plain.seeds
        assert not asked.seeds
        assert plain.sha256 != asked.sha256

    def test_a_task_with_a_check_of_its_own_is_refused(self) -> None:
        with pytest.raises(TaskError, match="has a check of its own"):
            load_task(str(ROOT.parent / "examples/gpumode_vectoradd"), Place(), gradients="only")

    def test_an_input_that_no_gradient_needs_is_no_fault(self, cpu_executor: LocalExecutor) -> None:
        (report,) = cpu_executor.validate(task_of("torch.tanh(x) * self.weight + y"))
        assert report.sound, report
        assert any("input 1 does not change any output" in note for note in report.notes)

    def test_a_reference_that_writes_to_such_an_input_is_refused(self, cpu_executor: LocalExecutor) -> None:
        with pytest.raises((TaskError, ReferenceFailed), match="in-place operation"):
            cpu_executor.describe(task_of("x.mul_(2) + y"))
