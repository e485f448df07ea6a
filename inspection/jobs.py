"""Jobs of this room, which the worker does in its children.

They stand apart because the controller, which asks for them, does without torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from forewarp.core.checking import CheckedHow
from forewarp.core.values import Candidate, DeviceKind
from forewarp.gpu_runner.worker.requests import ConfinedFolder, TaskJob


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeJob(TaskJob):
    """Find the signatures of a task."""

    run = "forewarp.inspection.describing:run"
    triton: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob(TaskJob):
    """Trace a module into a folder, in so many processor seconds for each workload."""

    run = "forewarp.inspection.tracing.program:trace"
    candidate: Candidate
    folder: ConfinedFolder
    workload_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckJob(TaskJob):
    """Run a candidate on the CPU in about `budget_s` seconds and `memory` bytes; `cache` keeps a compiled emulator."""

    run = "forewarp.inspection.emulation.jobs:check"
    how: CheckedHow
    triton: bool = False  # it is interpreted, not compiled
    candidate: Candidate
    budget_s: float
    memory: int
    cache: str

    @property
    def device(self) -> DeviceKind:
        return "cpu"
