"""Results of validating a task with null candidates: answers that compute nothing, or too coarsely."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from forewarp.core.values import Target, Task


@dataclass(frozen=True, slots=True)
class NullResult:
    """One null candidate in place of one output of the reference, or of all (None).

    `passed` is true where every case let it through; else `turned_down_on` names one that did not. `error` is its
    largest on ordinary inputs as a share of what is allowed; `passes_kernelbench` is what KernelBench's own check says.
    """

    name: str
    output: int | None
    passed: bool
    error: float | None
    turned_down_on: str
    passes_kernelbench: bool

    def __str__(self) -> str:
        return self.name if not self.output else f"{self.name} (output {self.output})"


@dataclass(frozen=True, slots=True)
class WorkloadReport:
    """Findings on one workload: `problems` make a task degenerate, operations that draw `random` numbers unsound."""

    workload: str
    oracle: str
    nulls: tuple[NullResult, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    random: tuple[str, ...] = ()

    @property
    def degenerate(self) -> bool:
        """True if a null was let through, or something else makes a speed-up mean nothing."""
        return bool(self.problems) or any(n.passed for n in self.nulls)

    @property
    def sound(self) -> bool:
        """True if nothing speaks against the workload, and its reference draws no random numbers."""
        return not self.degenerate and not self.random


@runtime_checkable
class Validator(Protocol):
    """An executor that can put null candidates to a task."""

    @property
    def target(self) -> Target:
        """The device that it validates on."""
        ...

    def validate(self, task: Task, started: Callable[[str], None] = ...) -> tuple[WorkloadReport, ...]:
        """Return a report per workload, each `started` before; raises `TaskError` with the reference's error."""
        ...
