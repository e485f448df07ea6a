"""A watch over the machine's main memory while processes run, so that the kernel need not end any: it may take others.

What takes too much by itself has limits of its own (`watch`); this looks at what all programs take together.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarp.gpu_runner.worker.channel import MACHINE
from forewarp.gpu_runner.worker.memory import HostMemory
from forewarp.gpu_runner.worker.watch import family

RESERVE_BYTES = 512 << 20
"""Left to the machine; an eighth of what can be had, where that is less."""
MOST = 0.5
"""Share of the memory that went since the watch began from which on whoever took it is to blame."""
_GB = 1e9


@dataclass(frozen=True, slots=True)
class Suspect:
    """Processes that may have taken the memory, with what they start; `status` is what the job's is then.

    The log begins with `name`, which ends with a space where it is not empty.
    """

    name: str
    status: str
    pids: Collection[int]


def it_alone(pid: int) -> list[Suspect]:
    """Return one suspect: the process that is watched."""
    return [Suspect("", "out_of_memory", [pid])]


class HostWatch:
    """Says when the machine runs low on memory, and who took it."""

    def __init__(self, suspects: Callable[[int], Sequence[Suspect]] = it_alone, host: HostMemory | None = None) -> None:
        """`suspects` names those that may be to blame, given the process that is watched."""
        self._suspects, self._host = suspects, host or HostMemory()
        self._first = self._host.available()
        self._own = _private(os.getpid())  # which each process that is forked begins with
        self._reserve = min(RESERVE_BYTES, (self._first or 0) // 8)

    def complaint(self, pid: int) -> tuple[str, str] | None:
        """Return status and log if memory is low while the process `pid` runs, else None."""
        left = self._host.available()
        if left is None or self._first is None or left >= self._reserve:
            return None
        gone = self._first - left
        for suspect in self._suspects(pid):
            taken = sum(max(0, _private(p.pid) - self._own) for p in family(suspect.pids))
            if taken > MOST * gone:
                return suspect.status, (
                    f"{suspect.name}took {taken / _GB:.1f} GB of main memory and was stopped when this machine had "
                    f"{left / _GB:.1f} GB left"
                )
        return MACHINE, (
            f"this machine ran low on main memory, {left / _GB:.1f} GB were left: other programs took most of the "
            f"{gone / _GB:.1f} GB that went since it began"
        )


def _private(pid: int) -> int:
    """Return the bytes in memory that a process shares with no file: arenas, which all arms map, are not counted."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
        return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")
    return 0
