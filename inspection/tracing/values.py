"""Data of a trace, and the file that it is kept in. Nothing here needs torch.

Sizes are in bytes. None means that a fact is not known, never that it is zero.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from forewarp.core import serde

TRACE_FILE = "trace.json"
Strategy = Literal["cpu", "fake", "source"]
"""Way in which a workload was traced: with real values in memory, by shapes alone, or from the module's text."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file with kernels: its text, and its path, "" for text alone."""

    source: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class TracedLaunch:
    """One launch, `times` over, of `symbol` in the file `cubin`, both empty where the kernel did not compile.

    `grid` (in blocks) and `block` are None where only the running program knows them. `shared` is dynamic, `bytes` are
    those of the tensors that it is given.
    """

    kernel: str
    symbol: str
    cubin: str
    grid: tuple[int, int, int] | None
    block: tuple[int, int, int] | None
    shared: int = 0
    times: int = 1
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """An operator of a library that would run on the device, with its tensors as "4096×4096 float32", `times` over."""

    name: str
    tensors: tuple[str, ...] = ()
    times: int = 1

    def __str__(self) -> str:
        often = f" ({self.times} times)" if self.times > 1 else ""
        return f"{self.name}({', '.join(self.tensors)}){often}"


@dataclass(frozen=True, slots=True)
class WorkloadTrace:
    """Launches and library calls of one call of the module, merged, in order of appearance.

    `problems` would spoil the module on the device, or stopped the trace; `notes` say what was assumed.
    """

    strategy: Strategy
    launches: tuple[TracedLaunch, ...] = ()
    calls: tuple[LibraryCall, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """A module by workload; cubins are in `folder`, "" for none."""

    workloads: Mapping[str, WorkloadTrace]
    folder: str = ""
    cached: bool = False

    @classmethod
    def load(cls, folder: Path) -> Trace:
        """Read the trace that a process which ran the module wrote; raises ValueError, and trusts nothing in it."""
        path = folder / TRACE_FILE
        try:
            if path.is_symlink():
                raise ValueError("it is a link")
            trace = serde.from_data(cls, json.loads(path.read_text()))
            _check(trace, folder)
        except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as e:
            raise ValueError(f"the trace cannot be read: {type(e).__name__}: {e}") from None
        return replace(trace, folder=str(folder))

    def save(self, folder: Path) -> None:
        (folder / TRACE_FILE).write_text(json.dumps(serde.to_data({"workloads": self.workloads})))


def _check(trace: Trace, folder: Path) -> None:
    for workload in trace.workloads.values():
        for launch in workload.launches:
            for size in (launch.grid, launch.block):
                if size is not None and not (len(size) == 3 and all(type(n) is int and n >= 0 for n in size)):
                    raise ValueError(f"{size!r} is no grid or block")
            if any(type(n) is not int or n < 0 for n in (launch.shared, launch.times, launch.bytes)):
                raise ValueError("a size or a count is no whole number")
            if not all(type(t) is str for t in (launch.kernel, launch.symbol, launch.cubin)):
                raise ValueError("a name is no text")
            path = folder / launch.cubin
            if launch.cubin and (path.parent != folder or path.is_symlink() or not path.is_file()):
                raise ValueError(f"{launch.cubin!r} is no file of this trace")
        if not all(type(t) is str for t in (*workload.problems, *workload.notes)):
            raise ValueError("a problem is no text")
