"""Jobs for children of the fork server, and their answers: what the controller and the worker say to each other.

Rooms above this one have jobs of their own, as subclasses of `WorkerJob` in their `jobs.py`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from forewarp.core import serde
from forewarp.core.values import Candidate, DeviceKind, Language, Signature, Status, Target, Task, Tier, Workload
from forewarp.gpu_runner.statistics import Samples
from forewarp.gpu_runner.worker.memory import Plan

JudgedStatus = Literal[Status, "anchor_wrong", "reference_failed", "refused", "canary_wrong", "machine"]
"""Status of a candidate, or the reason that a judge has none.

`refused`: the launcher did not take the program. `canary_wrong`: a kernel known to be right gave a wrong result.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJob:
    """Work for a child; `run` names the function that does it (`module:function`, called with the job and a channel).

    The client sets `log`, the file for what the child prints. `inductor` and `triton` say that it may compile by these.
    """

    run: ClassVar[str]
    log: str = ""
    inductor: bool = False
    triton: bool = True


def to_document(job: WorkerJob) -> dict[str, Any]:
    return {"job": f"{type(job).__module__}:{type(job).__qualname__}"} | serde.to_data(job)


def from_document(document: Mapping[str, Any]) -> WorkerJob:
    module, _, name = document["job"].partition(":")
    return serde.from_data(getattr(importlib.import_module(module), name), document)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeJob(WorkerJob):
    """Find out what the worker's Python has."""

    run = "forewarp.gpu_runner.worker.jobs:probe"
    triton: bool = False


@dataclass(frozen=True, slots=True)
class ConfinedFolder:
    """Folder that a confined child writes to, its limits in bytes and processor seconds, and what else it reads."""

    path: str
    memory: int
    cpu_s: int
    reads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileJob(WorkerJob):
    """Compile a candidate into a folder."""

    run = "forewarp.gpu_runner.worker.jobs:compile_job"
    candidate: Candidate
    signatures: tuple[Signature, ...]
    target: Target
    folder: ConfinedFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskJob(WorkerJob):
    """A job on a task, whose seeds are left out. `signatures` are those of `workloads`, where they are known."""

    task: Task
    target: Target
    signatures: tuple[Signature, ...] = ()

    @property
    def device(self) -> DeviceKind:
        return self.target.kind

    @property
    def workloads(self) -> tuple[Workload, ...]:
        return self.task.workloads[self.target.kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateJob(TaskJob):
    """Put null candidates to a task."""

    run = "forewarp.gpu_runner.worker.jobs:validate"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedsJob(TaskJob):
    """Have torch's Inductor make candidates of a task's reference."""

    run = "forewarp.gpu_runner.worker.jobs:make_seeds"


@dataclass(frozen=True, slots=True)
class BuiltKernel:
    """A candidate as a measurement runs it: source, the folder it was compiled to, and that folder's manifest."""

    language: Language
    source: str
    artefact: str
    manifest: Mapping[str, Any]

    @property
    def has_host_code(self) -> bool:
        """True of a library with host code of its own, which no launcher may load."""
        return bool(self.manifest.get("host_code"))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureJob(TaskJob):
    """Judge and time `candidate` against `anchor`, the reference where that is None.

    The plans say, per workload, how memory is used by the launcher and in cells. With `controls` the anchor is timed in
    both roles, too; `sighting`: there is a speed-up to beat. In cells on a GPU, modules that `captures` names by arm
    may be captured as graphs, and `flush_bytes` are written before each call of a burst. `weight_seed` 0 has weights
    drawn anew; lifted programs are captured with numbers from `random_seed`. A kernel that was `checked` before is
    compared on fresh inputs before, while and after it is timed, and on no others.
    """

    run = "forewarp.gpu_runner.worker.jobs:measure"
    candidate: BuiltKernel
    anchor: BuiltKernel | None = None
    memory: int
    call_timeout_s: float
    time_s: float
    looks: tuple[int, ...]
    controls: bool = True
    sighting: bool = False
    checked: bool = False
    cell_plans: tuple[Plan, ...]
    launch_plans: tuple[Plan, ...] = ()
    captures: Mapping[str, bool] = field(default_factory=dict[str, bool])
    flush_bytes: int = 0
    weight_seed: int = 0
    random_seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserverJob(WorkerJob):
    """Open the device at an address `base`, and observe the module of one `ObserveRequest`."""

    run = "forewarp.gpu_runner.worker.jobs:observe"
    base: int
    builds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveRequest:
    """Lift `module`, or the reference; `strides` are those of the reference's outputs by workload, if known."""

    job: MeasureJob
    module: BuiltKernel | None
    strides: Mapping[str, list[list[int]]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherJob(WorkerJob):
    """Serve one `LaunchRequest` after another."""

    run = "forewarp.gpu_runner.worker.jobs:launcher"
    builds: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """Measure with the lifted `programs` of some arms, data of `lifting.program.Programs`.

    `keep_anchor` uses the reference's program that is there; `anchor_captures`: a called one may be captured.
    """

    job: MeasureJob
    programs: Mapping[str, Any]
    keep_anchor: bool
    anchor_captures: bool


@dataclass(frozen=True, slots=True)
class TimingLook:
    """Samples so far of workload `index` of `of`: a `sighting` before the planned looks, or `late`, for any verdict."""

    samples: Samples
    index: int
    of: int
    sighting: bool = False
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judge's answer; `stopped_early` where there is no beating what it has to. A `broken` launcher ends."""

    status: JudgedStatus
    log: str = ""
    tier: Tier = "T1"
    timings: tuple[Samples, ...] = ()
    phases: Mapping[str, float] = field(default_factory=dict[str, float])
    protections: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    conditions: Mapping[str, float] = field(default_factory=dict[str, float])
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    stopped_early: bool = False
    broken: bool = False


@dataclass(frozen=True, slots=True)
class JobEnding:
    """Answer of a job whose result lies in a folder: how it ended, and why."""

    status: str
    log: str = ""


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """Answer of a job whose task could not be run: `error`, what it printed, the job's status, what was not `doing`."""

    error: str
    log: str = ""
    hint: str = ""
    status: str = ""
    doing: str = "run"
