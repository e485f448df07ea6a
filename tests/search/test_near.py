"""Near shapes are the reference's own, smaller, and the same each time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.jobs import task_job

from forewarp.core.errors import TaskError
from forewarp.core.values import DeviceKind, Signature, Task, Workload
from forewarp.gpu_runner.formats import task as tasks
from forewarp.gpu_runner.worker.signatures import describe_job
from forewarp.search.near import MOST, Near, near_shapes

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    str(ROOT / "examples" / "problem.py"),
    # Its inputs are really drawn, and large.
    pytest.param(str(ROOT / "examples" / "gpumode_vectoradd"), marks=pytest.mark.slow),
]

PICKY = """
import torch
import torch.nn as nn
batch, HEADS, WIDTH = 1 << 5, 16, 3 * 64
GROUPS: int = 32
TOP_K = 24
SEED = 4711
EPS = 1e-5
DOUBLE = 2 * WIDTH


class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        assert width % heads == 0
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x):
        y = (x * self.weight).view(x.shape[0], GROUPS, -1)
        return torch.topk(y.sum(1) + EPS, min(TOP_K, y.shape[-1] // 2), dim=-1)[0], x + 1


def get_inputs():
    torch.manual_seed(SEED)
    return [torch.randn(batch, WIDTH)]


def get_init_inputs():
    return [WIDTH, HEADS]
"""
LINKED = """
import torch
import torch.nn as nn
LEFT = 64
RIGHT = 64


class Model(nn.Module):
    def forward(self, x, y):
        return x + y


def get_inputs():
    return [torch.randn(LEFT), torch.randn(RIGHT)]


def get_init_inputs():
    return []
"""


def described(task: Task, kind: DeviceKind) -> Sequence[Signature]:
    job = task_job(task, kind)
    try:
        return [describe_job(job, workload, flops=False) for workload in task.workloads[kind]]
    except Exception as e:
        raise TaskError(str(e)) from None


def found_for(task: Task, kind: DeviceKind = "cpu") -> tuple[Near, ...]:
    return near_shapes(task, kind, described(task, kind), lambda near: described(near, kind))


def written(reference: str) -> Task:
    default = (Workload("default"),)
    return Task("made", "made", reference, {"cpu": default, "cuda": default})


def elements(signature: Signature) -> int:
    return sum(math.prod(s.shape) for s in (*signature.inputs, *signature.params, *signature.outputs))


@pytest.mark.parametrize("name", [*tasks.bundled(), *EXAMPLES])
def test_every_bundled_task_and_example_has_near_shapes_no_larger_than_its_own(name: str) -> None:
    task = tasks.load(name)
    originals = dict(zip([w.name for w in task.workloads["cpu"]], described(task, "cpu"), strict=True))
    found = found_for(task)
    assert 2 <= len(found) <= MOST
    for near in found:
        assert elements(near.signature) < elements(originals[near.origin])
        assert all(new < old for old, new in near.changes.values())
        assert near.task.workloads["cpu"] == (near.workload,)
        assert near.task.workloads["cuda"] == task.workloads["cuda"]
    assert len({near.task.sha256 for near in found} | {task.sha256}) == len(found) + 1
    assert found_for(task) == found


def test_only_sizes_that_the_reference_takes_change() -> None:
    halved, odd = found_for(written(PICKY))
    # Groups must divide the width, so the width takes no odd value; k, the seed and the groups are no sizes.
    assert odd.changes == {"batch": (32, 31)}
    assert halved.changes == {"batch": (32, 16), "WIDTH": (192, 128)}


def test_constants_that_must_stay_equal_change_together() -> None:
    halved, odd = found_for(written(LINKED))
    assert odd.changes == {"LEFT": (64, 61), "RIGHT": (64, 61)}
    assert halved.changes == {"LEFT": (64, 32), "RIGHT": (64, 32)}


def test_a_task_without_sizes_has_no_near_shapes() -> None:
    fixed = LINKED.replace("torch.randn(LEFT), torch.randn(RIGHT)", "torch.randn(64), torch.randn(64)")
    assert found_for(written(fixed)) == ()


def test_two_equal_workloads_do_not_give_equal_shapes() -> None:
    task = tasks.load("softmax")
    one = task.workloads["cpu"][0]
    twins: dict[DeviceKind, tuple[Workload, ...]] = {**task.workloads, "cpu": (one, replace(one, name="twin"))}
    found = found_for(replace(task, workloads=twins))
    assert len({tuple(s.shape for s in near.signature.inputs) for near in found}) == len(found)


@pytest.mark.slow
def test_the_pools_operations_have_near_shapes_on_cuda() -> None:
    folders = sorted(p for p in (ROOT / "pool" / "tasks").iterdir() if p.is_dir())
    counts = {folder.name: len(found_for(tasks.load(str(folder)), "cuda")) for folder in folders}
    assert len(counts) == 52
    assert min(counts.values()) >= 2
