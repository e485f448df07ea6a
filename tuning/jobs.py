"""Jobs of this room, which `job.py` does in children of the worker.

They stand apart because the controller, which asks for them, does without torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forewarp.core.values import Target
from forewarp.gpu_runner.worker.requests import ConfinedFolder, WorkerJob
from forewarp.inspection.tracing.values import SourceFile
from forewarp.tuning.space import ArgumentValue, Space

TRITON_CACHE = "cache/triton"
"""Folder of a compiling child's kernels, within its own."""
MISSING = "install what the file imports, or pass --python PATH, a Python that has it"
CALLS = "name a call: run, 'run(4096, 4096)' or 'matmul(float16[4096, 4096], float16[4096, 4096])'"
"""Advice where a call is missing or cannot be read."""


@dataclass(frozen=True, slots=True)
class NamedLaunch:
    """Name of a kernel's launch in a file: the call that does it, as `FileCall` has it, and the kernel."""

    call: str
    attempt: int | None
    values: bool
    kernel: str


@dataclass(frozen=True, slots=True)
class Observed:
    """An autotuned kernel in one call; `key` holds the arguments by which Triton tells calls apart.

    `attempt` numbers the guess that the call's arguments are; None where they are the file's own or were given.
    `values` is false where the call's tensors had shapes only. Configurations from `listed` on are not the author's.
    """

    call: str
    space: Space
    key: Mapping[str, ArgumentValue]
    attempt: int | None = None
    values: bool = True
    listed: int = 0

    @property
    def launch(self) -> NamedLaunch:
        """Name of the launch in a job."""
        return NamedLaunch(self.call, self.attempt, self.values, self.space.kernel)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileJob(WorkerJob):
    """Work on a file that may take so many seconds; with `space`, configurations beyond the author's count, too."""

    file: SourceFile
    seconds: float
    space: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicelessJob(FileJob):
    """Work on a file for a card that need not be here, in a folder."""

    target: Target
    folder: ConfinedFolder


@dataclass(frozen=True, slots=True, kw_only=True)
class ObserveCallsJob(DevicelessJob):
    """Find the configuration spaces of the autotuned kernels that some calls of a file launch, its own if none."""

    run = "forewarp.tuning.job:observe"
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileShareJob(DevicelessJob):
    """Compile the configurations at `places` of a launch into a folder, until `compile_s` seconds are over."""

    run = "forewarp.tuning.job:compile_share"
    launch: NamedLaunch
    places: tuple[int, ...]
    compile_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepTimingsJob(DevicelessJob):
    """Have Triton write milliseconds of configurations, by their places, into its cache in a folder."""

    run = "forewarp.tuning.job:keep_timings"
    launch: NamedLaunch
    timings: tuple[tuple[int, float | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeJob(FileJob):
    """Time the configurations at `places` of a launch, and compare the results of a call with each, the fastest first.

    `compiled` are the folders of Triton caches that they were compiled into.
    """

    run = "forewarp.tuning.job:measure"
    launch: NamedLaunch
    places: tuple[int, ...]
    compiled: tuple[str, ...]
    seed: int
    reads: tuple[str, ...] = ()
