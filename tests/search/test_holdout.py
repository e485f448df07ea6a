"""What near shapes say of a winner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import synthetic_executor

from forewarp.core import serde
from forewarp.core.errors import WorkerError
from forewarp.core.protocols import Subject
from forewarp.core.values import Build, Candidate, Measurement, Signature, Task, TensorSpec
from forewarp.gpu_runner import devices
from forewarp.gpu_runner.executors.local import Limits, LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks
from forewarp.search.holdout import Holdout, HoldoutShape, HoldoutStatus, examine, generalises

REFERENCE = """
import torch
import torch.nn as nn
N = 4096


class Model(nn.Module):
    def forward(self, x):
        return 2 * x


def get_inputs():
    return [torch.randn(N)]


def get_init_inputs():
    return []
"""
PLAN = """/*forewarp
inputs = ["x"]
outputs = ["y"]
{more}
[[launch]]
kernel = "go"
args = ["x", "y", "numel(x)"]
*/
extern "C" void go(const float* x, float* y, int n) {{
    {body}
}}
"""
ALL = "for (int i = 0; i < n; i++) y[i] = 2 * x[i];"
WHOLE_TILES = "for (int t = 0; t < n / 16 * 16; t++) y[t] = 2 * x[t];"
EVEN_ONLY = '[scratch]\ns = { dtype = "float32", shape = ["1 - numel(x) % 16"] }'
MODULE = """
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        assert x.shape == (4096,), "made for 4096"
        return x + x
"""


def shape(status: HoldoutStatus) -> HoldoutShape:
    bare = Signature("near", (TensorSpec("0", (3,), "float32"),), {}, {}, (), (), None, 0)
    return HoldoutShape("near", "own", {"N": 3}, {"N": (4, 3)}, status, bare, "tie" if status == "ok" else None)


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (["ok", "ok"], "yes"),
        (["ok", "not_measured"], "yes"),
        (["ok", "not_applicable"], "partly"),
        (["ok", "compile_error"], "partly"),
        (["ok", "incorrect"], "no"),
        (["not_applicable", "crashed"], "no"),
        (["not_applicable"], "unknown"),
        (["not_measured"], "unknown"),
        ([], "unknown"),
    ],
)
def test_shapes_together_say_whether_a_kernel_generalises(statuses: list[HoldoutStatus], expected: str) -> None:
    assert generalises([shape(s) for s in statuses]) == expected


def test_a_task_whose_shapes_do_not_follow_its_constants_says_nothing() -> None:
    task = synthetic_executor.task()
    found = examine(synthetic_executor.SyntheticExecutor(), task, task.seeds[0])
    assert found is not None
    assert (found.generalises, found.shapes, found.device_s) == ("unknown", (), 0)


@pytest.fixture(scope="module")
def executor() -> Iterator[LocalExecutor]:
    made = LocalExecutor(devices.detect_cpu(), limits=Limits(time_s=0.05, looks=(8,)))
    yield made
    made.close()


def examined(executor: LocalExecutor, folder: Path, candidate: Candidate) -> Holdout:
    (folder / "double.py").write_text(REFERENCE)
    found = examine(executor, tasks.load(str(folder / "double.py")), candidate)
    assert found is not None
    assert serde.from_data(Holdout, serde.to_data(found)) == found
    assert [s.name for s in found.shapes] == ["N=4093", "N=2048"]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "body", "statuses", "expected"),
    [
        ("", ALL, ["ok", "ok"], "yes"),
        ("", WHOLE_TILES, ["incorrect", "ok"], "no"),
        (EVEN_ONLY, ALL, ["not_applicable", "ok"], "partly"),
    ],
)
def test_a_kernel_is_measured_on_near_shapes(
    executor: LocalExecutor, tmp_path: Path, more: str, body: str, statuses: list[str], expected: str
) -> None:
    found = examined(executor, tmp_path, candidates.from_source(PLAN.format(more=more, body=body), "cpp"))
    assert [s.status for s in found.shapes] == statuses
    assert found.generalises == expected
    assert found.device_s > 0
    if expected == "no":
        assert found.said == "fast on the given shapes; wrong on N=4093: use only behind a shape guard"


@pytest.mark.slow
def test_a_module_that_says_no_to_a_shape_is_not_wrong_there(executor: LocalExecutor, tmp_path: Path) -> None:
    found = examined(executor, tmp_path, Candidate(MODULE, "python"))
    assert [s.status for s in found.shapes] == ["not_applicable", "not_applicable"]
    assert found.generalises == "unknown"
    assert "use it on the given shapes only" in found.said


class Gone(LocalExecutor):
    """Is lost with each measurement, after three seconds."""

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        lost = WorkerError("the machine is gone")
        lost.lost_s = 3.0
        raise lost


@pytest.mark.slow
def test_what_lost_machines_took_is_counted(tmp_path: Path) -> None:
    executor = Gone(devices.detect_cpu())
    found = examined(executor, tmp_path, candidates.from_source(PLAN.format(more="", body=ALL), "cpp"))
    executor.close()
    assert [s.status for s in found.shapes] == ["not_measured", "not_measured"]
    assert found.device_s == 6.0
