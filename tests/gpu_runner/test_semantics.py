"""What a KernelBench file means: its mode, state that calls change, random numbers, and inputs of any form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support.jobs import describe, task_job
from support.shared_executors import limited

from forewarp.core.errors import TaskError
from forewarp.core.values import Candidate, Measurement, Task, Workload
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.worker.oracle import oracle
from forewarp.gpu_runner.worker.problem import Problem, ReferenceFailed, import_text, outputs_of
from forewarp.inspection import describing

SHAPE = Workload("default")
QUICK = Limits(measure_s=60, call_s=20.0, memory=2 << 30, time_s=0.02, looks=(4,))

HEAD = """
import torch
import torch.nn as nn

class Model(nn.Module):
"""
TAIL = """
def get_inputs():
    return [torch.randn(16, 8)]

def get_init_inputs():
    return []
"""
NORM = f"""{HEAD}
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("last", torch.zeros(8), persistent=False)

    def forward(self, x):
        self.calls += 1
        self.last = x[0]
        return self.norm(x) * self.calls
{TAIL}"""
RANDOM = f"""{HEAD}
    def forward(self, x):
        return nn.functional.dropout(x, 0.5) + torch.rand(8, device=x.device)
{TAIL}"""


def as_candidate(source: str) -> Candidate:
    return Candidate(source.replace("class Model(", "class ModelNew("), "python")


def measured(executor: LocalExecutor, task: Task, candidate: Candidate) -> Measurement:
    with limited(executor, QUICK) as quick:
        return quick.measure(task, candidate, quick.compile(task, candidate))


class TestMode:
    SOURCE = f"{HEAD}\n    def forward(self, x):\n        return x * (2 if self.training else 3)\n{TAIL}"

    @pytest.mark.parametrize(("mode", "factor"), [("train", 2), ("eval", 3)])
    def test_reference_and_candidate_are_in_the_tasks_mode(self, mode: Any, factor: int) -> None:
        loaded = Problem.load(self.SOURCE, SHAPE, 0, mode)
        (x,) = loaded.inputs(1, "cpu")
        for call in (loaded.model("cpu"), loaded.bind(import_text(as_candidate(self.SOURCE).source), "cpu", {})):
            assert torch.equal(call(x), x * factor)

    def test_a_folder_may_say_eval(self, tmp_path: Path) -> None:
        (tmp_path / "reference.py").write_text(self.SOURCE)
        (tmp_path / "task.toml").write_text("")
        usual = tasks.load(str(tmp_path))
        (tmp_path / "task.toml").write_text('mode = "eval"')
        other = tasks.load(str(tmp_path))
        assert (usual.mode, other.mode) == ("train", "eval")
        assert usual.sha256 != other.sha256
        (tmp_path / "task.toml").write_text('mode = "test"')
        with pytest.raises(TaskError, match='mode must be "train" or "eval"'):
            tasks.load(str(tmp_path))


class TestState:
    NAMES = ("norm.running_mean", "norm.running_var", "norm.num_batches_tracked", "calls", "last")

    def test_changed_buffers_are_named_with_and_without_values(self) -> None:
        with_values = NORM.replace("self.last = x[0]", "self.last = x[0]; float(x[0, 0])")
        for source in (NORM, with_values):
            assert sorted(describe(source, SHAPE).state) == sorted(self.NAMES)
        assert describe(NORM.replace("BatchNorm1d(8)", "LayerNorm(8)"), SHAPE).state == ("calls", "last")

    def test_the_same_module_is_right_at_every_call(self, cpu_executor: LocalExecutor) -> None:
        task = tasks.from_source(NORM, "norm")
        found = measured(cpu_executor, task, as_candidate(NORM))
        assert found.status == "ok", found.log
        assert "state compared: calls, norm.running_mean, norm.running_var, norm.num_batches_tracked" in found.checks
        assert "state not compared, the candidate has no such buffers: last" in found.checks

    def test_state_must_be_left_as_the_reference_leaves_it(self, cpu_executor: LocalExecutor) -> None:
        wrong = NORM.replace("BatchNorm1d(8)", "BatchNorm1d(8, momentum=0.2)")
        found = measured(cpu_executor, tasks.from_source(NORM, "norm"), as_candidate(wrong))
        assert found.status == "incorrect"
        assert "the buffer norm.running_mean" in found.log

    def test_a_candidate_without_the_buffers_is_told_that_they_were_not_compared(
        self, cpu_executor: LocalExecutor
    ) -> None:
        call = "nn.functional.batch_norm(x, None, None, training=True)"
        source = f"{HEAD}\n    def forward(self, x):\n        return {call}\n"
        found = measured(cpu_executor, tasks.from_source(NORM, "norm"), as_candidate(source))
        assert found.status == "ok", found.log
        assert any(c.startswith("state not compared") and "norm.running_mean" in c for c in found.checks)


class TestRandom:
    def test_random_operations_are_recognised(self) -> None:
        assert describe(RANDOM, SHAPE).random
        assert not describe(NORM, SHAPE).random

    def test_attention_without_dropout_is_not_random(self) -> None:
        source = RANDOM.replace("nn.functional.dropout(x, 0.5)", "ATTENTION").replace(
            " + torch.rand(8, device=x.device)", ""
        )
        call = "nn.functional.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], dropout_p={})"
        for share, random in ((0.0, False), (0.5, True)):
            values = source.replace("return ATTENTION", f"float(x[0, 0]); return {call.format(share)}")
            assert describe(values, SHAPE).random is random
            assert describe(source.replace("ATTENTION", call.format(share)), SHAPE).random is random

    def test_the_same_module_agrees(self, cpu_executor: LocalExecutor) -> None:
        found = measured(cpu_executor, tasks.from_source(RANDOM, "random"), as_candidate(RANDOM))
        assert found.status == "ok", found.log

    def test_numbers_that_fp64_would_draw_otherwise(self, cpu_executor: LocalExecutor) -> None:
        source = RANDOM.replace("torch.rand(8, device=x.device)", "torch.rand_like(x)")
        found = measured(cpu_executor, tasks.from_source(source, "random"), as_candidate(source))
        assert found.status == "ok", found.log
        assert found.environment["oracle"] == "fp32 highest"

    def test_other_numbers_are_wrong(self, cpu_executor: LocalExecutor) -> None:
        wrong = RANDOM.replace("return ", "torch.rand(1); return ")
        found = measured(cpu_executor, tasks.from_source(RANDOM, "random"), as_candidate(wrong))
        assert found.status == "incorrect"


NESTED = f"""{HEAD}
    def __init__(self, widths, options, name):
        super().__init__()
        assert (widths, options, name) == ([8, 4], {{"bias": True}}, "small")
        self.linear = nn.Linear(*widths, **options)

    def forward(self, x, mask, options, kind, packed, low, empty, wide, zero):
        assert mask is None and kind == "relu" and options["flags"] == (True, 1j) and x.stride() == (1, 16)
        assert low.dtype == torch.float8_e4m3fn and packed.dtype == torch.uint8 and empty.shape == (0, 3)
        assert wide.is_complex() and zero.dim() == 0
        y = self.linear(x) * options["scale"] + options["more"][0]
        y = y + low.to(y.dtype).sum() + packed.sum() + wide.real.sum() + zero
        return {{"y": y, "none": None, "rest": (y.sum(0), [x.shape[0]])}}

def get_inputs():
    return [
        torch.randn(8, 16).t(), None, {{"scale": 2.0, "flags": (True, 1j), "more": [torch.randn(4)]}}, "relu",
        torch.randint(0, 255, (4,), dtype=torch.uint8), torch.randn(5).to(torch.float8_e4m3fn), torch.randn(0, 3),
        torch.randn(3, dtype=torch.complex64), torch.randn(()),
    ]

def get_init_inputs():
    return [[8, 4], {{"bias": True}}, "small"]
"""


class TestInputs:
    def test_any_form_reaches_reference_and_candidate_as_it_is(self) -> None:
        signature = describe(NESTED, SHAPE)
        assert [i.shape for i in signature.inputs] == [(8, 16), (4,), (4,), (5,), (0, 3), (3,), ()]
        assert signature.scalars == {"1": 2.0, "2": True}
        assert [(o.shape, o.dtype) for o in signature.outputs] == [
            ((16, 4), "float32"),
            ((4,), "float32"),
            ((), "int64"),
        ]
        loaded = Problem.load(NESTED, SHAPE, 0)
        values = loaded.inputs(1, "cpu")
        model = loaded.model("cpu")
        exact, how = oracle(model, values)
        candidate = loaded.bind(import_text(as_candidate(NESTED).source), "cpu", model.state_dict())
        results = outputs_of(candidate(*values))
        assert how in ("fp64", "fp32 highest")
        assert torch.allclose(results[0].double(), exact[0].double(), atol=1e-4)

    def test_any_form_is_measured(self, cpu_executor: LocalExecutor) -> None:
        found = measured(cpu_executor, tasks.from_source(NESTED, "nested"), as_candidate(NESTED))
        assert found.status == "ok", found.log

    @pytest.mark.parametrize(
        ("inputs", "words"),
        [
            ("[torch.randn(2), iter([1])]", "input 1 is a list_iterator, which cannot be handed to a kernel"),
            ("[torch.eye(2).to_sparse()]", "input 0 is a sparse_coo tensor"),
            ("[torch.randn(2), {'a': {1, 2}}]", "input 1 is a dict that holds a set"),
            ("torch.randn(2, 2)", r"get_inputs\(\) returned a Tensor; it must return a list"),
            (
                "[torch.randn(2), int.from_bytes(__import__('os').urandom(6))]",
                "must follow from the module's constants",
            ),
        ],
    )
    def test_what_no_kernel_can_take_is_refused_by_name(self, inputs: str, words: str) -> None:
        source = f"{HEAD}\n    def forward(self, *x):\n        return x[0] + 1\n{TAIL}".replace(
            "[torch.randn(16, 8)]", inputs
        )
        with pytest.raises((TypeError, ValueError), match=words):
            describe(source, SHAPE)

    def test_a_reference_may_only_write_and_return_nothing(self, cpu_executor: LocalExecutor) -> None:
        source = f"{HEAD}\n    def forward(self, x):\n        x.add_(1)\n{TAIL}"
        task = tasks.from_source(source, "writes")
        assert measured(cpu_executor, task, as_candidate(source)).status == "ok"
        assert measured(cpu_executor, task, as_candidate(source.replace("add_(1)", "add_(2)"))).status == "incorrect"

    def test_forward_must_return_something_to_compare(self) -> None:
        with pytest.raises(ValueError, match="nothing to compare"):
            describe(f"{HEAD}\n    def forward(self, x):\n        return None\n{TAIL}", SHAPE)


class TestBlame:
    def test_a_reference_that_fails_only_when_measured_is_named(self, cpu_executor: LocalExecutor) -> None:
        source = RANDOM.replace("return nn", "assert x.is_meta, 'only shapes'; return nn")
        task = tasks.from_source(f"{source}\ntorch.manual_seed(0)\n", "fails")
        with pytest.raises(TaskError, match="only shapes"):
            measured(cpu_executor, task, as_candidate(RANDOM))

    def test_the_candidates_own_error_is_its_own(self, cpu_executor: LocalExecutor) -> None:
        found = measured(
            cpu_executor,
            tasks.from_source(RANDOM, "random"),
            as_candidate(RANDOM.replace("return ", "assert x.is_meta, 'only shapes'; return ")),
        )
        assert found.status == "runtime_error"
        assert "only shapes" in found.log

    def test_a_missing_package_is_named(self) -> None:
        with pytest.raises(ReferenceFailed, match="imports the package no_such_package"):
            describe(f"import no_such_package\n{RANDOM}", SHAPE)

    def test_what_a_package_says_of_itself_is_shown(self) -> None:
        with pytest.raises(ReferenceFailed, match="its requirements are not there"):
            describe(f"raise ModuleNotFoundError('its requirements are not there')\n{RANDOM}", SHAPE)


class TestWithoutAGpu:
    """References for a CUDA target where torch sees none."""

    KERNELBOT = """
import torch

def generate_input(size: int, seed: int):
    return torch.randn(size, size, device="cuda"), torch.empty(size, size, device="cuda")

def ref_kernel(data):
    x, out = data
    for _ in range(100):
        out[...] = x @ x
    return out

def check_implementation(data, output):
    return True
"""

    def describe(self, source: str, **constants: Any) -> Any:
        if torch.cuda.is_available():
            pytest.skip("there is a GPU")
        workload = Workload("w", constants)
        task = Task("task", "task", source, {"cuda": (workload,)}, format="gpumode")
        return describing.describe(task_job(task, "cuda"), workload, flops=False)

    def test_shapes_are_enough_for_what_would_not_fit(self) -> None:
        found = self.describe(self.KERNELBOT, size=60000)
        assert [i.shape for i in found.inputs] == [(60000, 60000)] * 2
        assert (found.written, found.aliases) == ((1,), {"0": 1})

    def test_inputs_that_need_values_have_their_shapes_taken(self) -> None:
        source = self.KERNELBOT.replace(
            "    return torch.randn", "    assert float(torch.ones(1)) == 1\n    return torch.randn"
        )
        found = self.describe(source, size=5000)
        assert [i.shape for i in found.inputs] == [(5000, 5000)] * 2

    def test_what_needs_too_much_says_why(self) -> None:
        source = self.KERNELBOT.replace("x, out = data", "x, out = data\n    assert float(x.sum()) < 1e9")
        with pytest.raises(ReferenceFailed, match=r"inputs and parameters take 26\.8 GiB, of which 2 fit"):
            self.describe(source, size=60000)
