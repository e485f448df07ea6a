"""Modules lifted, or not, on an NVIDIA GPU: run with `pytest -m gpu` on a machine that has one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forewarp.core.protocols import Subject
from forewarp.core.values import Candidate, Measurement, Task
from forewarp.gpu_runner.devices import detect_cuda
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats.task import from_source

pytestmark = pytest.mark.gpu

HEAD = "import torch\nimport torch.nn as nn\n"
ENDS = "\ndef get_inputs():\n    return [torch.randn(4096, 2048)]\n\ndef get_init_inputs():\n    return []\n"
SOFTMAX = f"{HEAD}class Model(nn.Module):\n    def forward(self, x):\n        return torch.softmax(x, 1)\n{ENDS}"
LINEAR = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2048, 512)

    def forward(self, x):
        return self.linear(x)
{ENDS}"""
NORM = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2048)

    def forward(self, x):
        return self.norm(x)
{ENDS}"""
DROPOUT = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.3)

    def forward(self, x):
        return self.drop(x) * 2
{ENDS}"""
CONVOLUTION = f"""{HEAD}class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(16, 64, 3)

    def forward(self, x):
        return self.conv(x.view(16, 16, 128, 256))
{ENDS}"""


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    target = detect_cuda()
    assert target is not None, "pytest -m gpu needs an NVIDIA GPU"
    made = LocalExecutor(target, limits=Limits(measure_s=120), cache=tmp_path_factory.mktemp("builds"))
    yield made
    made.close()


def module(text: str) -> Candidate:
    return Candidate(text.replace("class Model(", "class ModelNew(").replace("super(Model", "super(ModelNew"), "python")


def measure(executor: LocalExecutor, reference: str, candidate: Candidate) -> Measurement:
    task: Task = from_source(reference, "t")
    return executor.measure(task, candidate, executor.compile(task, candidate))


@pytest.mark.parametrize("reference", [SOFTMAX, LINEAR, NORM, DROPOUT, CONVOLUTION])
def test_a_module_identical_to_its_reference_is_lifted_and_a_tie(executor: LocalExecutor, reference: str) -> None:
    result = measure(executor, reference, module(reference))
    assert result.status == "ok", result.log
    assert result.lifting.startswith("lifted to"), result.lifting
    assert result.environment["anchor"] == "lifted"
    assert (result.tier, result.verdict) == ("T0", "tie"), (result.low, result.high)


def test_the_reference_stays_a_program_for_one_candidate_after_another(executor: LocalExecutor) -> None:
    results = [measure(executor, LINEAR, module(f"{LINEAR}\n# {i}\n")) for i in range(2)]
    assert [r.environment["anchor"] for r in results] == ["lifted", "lifted"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return torch.softmax(x, 1) if x.sum().item() != 1 else x", "captured"),
        ("y = torch.softmax(x.cpu(), 1)\n        return y.cuda()", "captured"),
    ],
)
def test_what_looks_at_values_stays_in_its_cell(executor: LocalExecutor, body: str, why: str) -> None:
    text = SOFTMAX.replace("return torch.softmax(x, 1)", body)
    result = measure(executor, SOFTMAX, module(text))
    assert result.status == "ok", result.log
    assert result.tier == "T1"
    assert result.lifting.startswith("not lifted")
    assert why in result.lifting


def test_a_result_kept_from_inputs_is_wrong_and_the_modules_own_fault(executor: LocalExecutor) -> None:
    text = SOFTMAX.replace(
        "        return torch.softmax(x, 1)",
        "        if not hasattr(self, 'kept'):\n            self.kept = torch.softmax(x, 1)\n        return self.kept",
    )
    result = measure(executor, SOFTMAX, module(text))
    assert result.status == "incorrect"


def test_weights_may_be_prepared_once(executor: LocalExecutor) -> None:
    text = LINEAR.replace(
        "        return self.linear(x)",
        "        if not hasattr(self, 'turned'):\n            self.turned = self.linear.weight.t().contiguous()\n"
        "        return torch.addmm(self.linear.bias, x, self.turned)",
    )
    result = measure(executor, LINEAR, module(text))
    assert result.status == "ok", result.log
    assert result.tier == "T0"


def test_a_view_is_paid_for(executor: LocalExecutor) -> None:
    turn = SOFTMAX.replace("torch.softmax(x, 1)", "x.t().contiguous()")
    result = measure(executor, turn, module(turn.replace(".contiguous()", "")))
    assert result.status == "ok", result.log
    assert result.speedup == pytest.approx(1.0, rel=0.1)


def test_a_module_against_another_module(executor: LocalExecutor) -> None:
    task = from_source(SOFTMAX, "t")
    slow = module(SOFTMAX.replace("torch.softmax(x, 1)", "torch.softmax(torch.softmax(x, 1).log(), 1)"))
    fast = module(SOFTMAX)
    against = Subject(slow, executor.compile(task, slow))
    result = executor.measure(task, fast, executor.compile(task, fast), against)
    assert result.verdict == "faster", result.log


def test_an_autotuned_kernel_is_replayed_by_the_code_that_was_chosen(executor: LocalExecutor) -> None:
    reference = SOFTMAX.replace("torch.softmax(x, 1)", "torch.relu(x.t() * 2 + 1).contiguous()")
    compiled = module(reference).source + (
        "\nclass ModelNew(ModelNew):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        options = {'max_autotune_pointwise': True}\n"
        "        self.compiled = torch.compile(super().forward, options=options)\n\n"
        "    def forward(self, x):\n"
        "        return self.compiled(x)\n"
    )
    task, kernel = from_source(reference, "t"), Candidate(compiled, "python")
    build = executor.compile(task, kernel)
    result = executor.measure(task, kernel, build, Subject(kernel, build))
    assert result.status == "ok", result.log
    assert (result.tier, result.environment["anchor"]) == ("T0", "a kernel"), result.lifting


def test_a_view_is_paid_for_against_another_module(executor: LocalExecutor) -> None:
    turn = SOFTMAX.replace("torch.softmax(x, 1)", "x.t().contiguous()")
    task, copies = from_source(turn, "t"), module(turn)
    views = module(turn.replace(".contiguous()", ""))
    result = executor.measure(
        task, views, executor.compile(task, views), Subject(copies, executor.compile(task, copies))
    )
    assert result.status == "ok", result.log
    assert result.speedup == pytest.approx(1.0, rel=0.1)


def test_work_of_another_thread_is_part_of_the_result(executor: LocalExecutor) -> None:
    body = "from concurrent.futures import ThreadPoolExecutor\n        with ThreadPoolExecutor(1) as pool:\n"
    body += "            return pool.submit(torch.softmax, x, 1).result()"
    result = measure(executor, SOFTMAX, module(SOFTMAX.replace("return torch.softmax(x, 1)", body)))
    assert result.status == "ok", result.log
    assert result.tier == "T1"


def test_observers_leave_nothing_behind(executor: LocalExecutor) -> None:
    measure(executor, SOFTMAX, module(SOFTMAX + "\n# spare processes stay for the next one\n"))
    before = len(list(Path("/proc/self/fd").iterdir()))
    measure(executor, SOFTMAX, module(SOFTMAX + "\n# once more\n"))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 8  # a spare observer's
