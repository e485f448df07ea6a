"""Results of checking a candidate on the CPU: whether its output is correct, and what it does to memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from forewarp.core.values import Constant

CheckedHow = Literal["CPU-interpreted", "CPU-emulated"]
CheckStatus = Literal["ok", "incorrect", "unsupported", "failed"]
FindingKind = Literal["out of bounds", "race", "uncoalesced", "uninitialised", "divergent barrier"]

FAULTS: tuple[FindingKind, ...] = ("out of bounds", "race", "uninitialised", "divergent barrier")
"""Findings that make a kernel wrong; `uncoalesced` only makes it slow."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a kernel did to memory that it should not have done, at a place such as "softmax_kernel, line 12".

    `count` is in elements (out of bounds, race, uninitialised), in requests (uncoalesced) or in barriers.
    """

    kind: FindingKind
    where: str
    message: str
    count: int


@dataclass(frozen=True, slots=True)
class CheckedWorkload:
    """One workload as it was run, perhaps with smaller constants than the task's.

    `programs` instances (Triton) or blocks (CUDA) ran of the `grid` of all launches; where they are fewer, only what
    these wrote was compared. `error` is the worst as a multiple of what is allowed, None where nothing could be
    compared.
    """

    workload: str
    constants: Mapping[str, Constant]
    programs: int
    grid: int
    error: float | None
    message: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one candidate's run without a GPU; it says nothing of speed.

    `status` is that of the outputs by the rule of measurements; "failed" where the candidate raised, crashed or ran out
    of time, "unsupported" where such a run cannot judge it. Outputs can be right by luck, whatever the `findings`.
    """

    how: CheckedHow
    status: CheckStatus
    workloads: tuple[CheckedWorkload, ...]
    findings: tuple[Finding, ...]
    seconds: float
    message: str = ""

    @property
    def faults(self) -> tuple[Finding, ...]:
        """The findings that make the kernel wrong on a GPU, whatever its outputs were here."""
        return tuple(f for f in self.findings if f.kind in FAULTS)
