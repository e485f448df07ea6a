"""Honest kernels of many kinds, none of which may be called a cheat.

`catalogue.toml` lists them. Sources lie in `kernels/` and with the bundled tasks' seeds; `tasks/` has further tasks.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from cheats import zoo

from forewarp.core.values import Candidate, DeviceKind, Task, Workload
from forewarp.gpu_runner.executors.local import LocalExecutor
from forewarp.gpu_runner.formats import candidate as candidates
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.measured import MeasureResult

HERE = Path(__file__).parent
SOURCES = HERE / "kernels"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One honest kernel; the fields are those of `catalogue.toml`, where they are explained."""

    task: str
    file: str = ""
    seed: str = ""
    tunables: Mapping[str, int] = field(default_factory=dict[str, int])
    devices: tuple[DeviceKind, ...] = ()
    quick: bool = True
    builds: bool = False

    @property
    def id(self) -> str:
        """File name and the tunables that choose the algorithm."""
        chosen = " ".join(f"{name}={value}" for name, value in self.tunables.items())
        return " ".join(part for part in (self.file or f"seed {self.seed}", chosen) if part)

    def candidate(self) -> Candidate:
        """Return the candidate with its tunables set."""
        if self.file:
            return zoo.source(SOURCES / self.file)
        return candidates.load(tasks.BUNDLED / self.task / "seeds" / self.seed, self.tunables)

    def runs_on(self, kind: DeviceKind) -> bool:
        """Whether it can run on a device of this kind."""
        if self.devices:
            return kind in self.devices
        usual = {"python": ("cpu", "cuda"), "cpp": ("cpu",), "cuda": ("cuda",), "triton": ("cuda",)}
        return kind in usual[self.candidate().language]


@lru_cache(maxsize=1)
def kernels() -> tuple[Kernel, ...]:
    """Read the catalogue."""
    return tuple(_kernel(entry) for entry in _catalogue()["kernel"])


def _kernel(entry: dict[str, Any]) -> Kernel:
    task = entry.get("task", Path(entry.get("seed", "scores")).stem)
    return Kernel(**(entry | {"task": task, "devices": tuple(entry.get("devices", ()))}))


@lru_cache(maxsize=1)
def _catalogue() -> dict[str, Any]:
    return tomllib.loads((HERE / "catalogue.toml").read_text())


@lru_cache(maxsize=64)
def task_of(name: str) -> Task:
    """Load a task: a bundled one in the sizes of the catalogue, one of the zoo's, or one of this folder."""
    if name not in tasks.bundled():
        folder = HERE / "tasks" / name
        return tasks.load(str(folder)) if folder.exists() else zoo.task_of(name)
    kinds: tuple[DeviceKind, ...] = ("cpu", "cuda")
    sizes = _catalogue()["sizes"]
    return replace(tasks.load(name), workloads={kind: (Workload("main", sizes[kind][name]),) for kind in kinds})


def measure(executor: LocalExecutor, kernel: Kernel) -> MeasureResult:
    """Measure a kernel against its task's reference."""
    return zoo.measure(executor, task_of(kernel.task), kernel.candidate())


def is_believed(result: MeasureResult) -> bool:
    """Return whether a user is told that the kernel is right and its time to be trusted."""
    return zoo.verdict_of(result) in zoo.BELIEVED
