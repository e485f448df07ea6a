"""Static facts about a kernel, before it runs: machine code, launches, the roofline, and problems.

Sizes are in bytes, times in seconds. None means that a fact is not known, never that it is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from forewarp.core.values import Language, Target

Bound = Literal["memory", "arithmetic"]
Limiter = Literal["registers", "shared memory", "threads", "blocks"]


@dataclass(frozen=True, slots=True)
class Code:
    """One kernel's machine code; `stack_bytes` is the local memory of a thread.

    `mix` counts instructions by class, `loops` those inside a loop, `widths` accesses by class and bits, and Hopper's
    own instructions by class and name ("tensor.HGMMA").
    """

    kernel: str
    registers: int
    stack_bytes: int
    static_shared_bytes: int
    code_bytes: int
    mix: Mapping[str, int] = field(default_factory=dict[str, int])
    loops: Mapping[str, int] = field(default_factory=dict[str, int])
    widths: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks and warps that one multiprocessor holds at a time, as a share of its most, and what limits them."""

    blocks: int
    warps: int
    share: float
    limiter: Limiter


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of a kernel; `grid` is None where only the running program knows it.

    `waves` is how often the grid fills the device, `tail` the idle share of the last wave, of all waves. A traced
    program launched exactly this `times` over, on tensors of `argument_bytes`.
    """

    code: Code
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    dynamic_shared_bytes: int = 0
    occupancy: Occupancy | None = None
    waves: float | None = None
    tail: float | None = None
    times: int = 1
    argument_bytes: int = 0


@dataclass(frozen=True, slots=True)
class WorkloadInspection:
    """One workload: launches, calls of libraries, what it moves and computes, and the least time on the target."""

    workload: str
    launches: tuple[Launch, ...]
    bytes_moved: int
    flops: float | None
    floor_s: float | None
    bound: Bound | None
    calls: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inspection:
    """A candidate as seen for one target. `how` names the way: compiled from a plan, traced, or split off a module."""

    target: Target
    language: Language
    how: str
    workloads: tuple[WorkloadInspection, ...]
    problems: tuple[str, ...] = ()
