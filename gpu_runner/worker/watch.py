"""A watch over a confined process and what it started: memory, number of tasks, processor time."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from forewarp.gpu_runner.worker.protections import task_limit, tasks_in_all

_LOOK_S = 0.5
_SUDDEN = 50
"""New tasks on the whole machine since the last look that make the next look come at once."""


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc: `tasks` counts threads, `resident` bytes.

    `processor_s` is what it has used, with those of its children that have ended. `started` is when, in the kernel's
    own ticks.
    """

    pid: int
    parent: int
    tasks: int
    resident: int
    zombie: bool
    processor_s: float
    started: int


def processes() -> dict[int, Process]:
    """Return all processes that this one can see."""
    found: dict[int, Process] = {}
    page, tick = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):
            # The name of a program may itself hold brackets.
            fields = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
            pid = int(name)
            used_s = sum(map(int, fields[11:15])) / tick
            found[pid] = Process(
                pid, int(fields[1]), int(fields[17]), int(fields[21]) * page, fields[0] == "Z", used_s, int(fields[19])
            )
    return found


def family(roots: Collection[int], everybody: dict[int, Process] | None = None) -> list[Process]:
    """Return the processes `roots` and all their descendants."""
    everybody = processes() if everybody is None else everybody
    children: dict[int, list[int]] = {}
    for process in everybody.values():
        children.setdefault(process.parent, []).append(process.pid)
    members: dict[int, Process] = {}
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid in everybody and pid not in members:
            members[pid] = everybody[pid]
            waiting += children.get(pid, ())
    return list(members.values())


def strays(keep: Collection[int]) -> list[int]:
    """Return this process's children that are not in `keep`: orphans that it has adopted."""
    me = os.getpid()
    return [p.pid for p in processes().values() if p.parent == me and p.pid not in keep]


def end_strays(keep: Collection[int], within_s: float = 1.0) -> None:
    """Kill adopted orphans and their descendants, over and over, until none is left or the time is up."""
    deadline = time.monotonic() + within_s
    while (found := strays(keep)) and time.monotonic() < deadline:
        end(found)
        for pid in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)


def end(roots: Collection[int]) -> None:
    """Kill processes and all their descendants, stopping them first so that they cannot multiply meanwhile."""
    members = [p.pid for p in family(roots) if not p.zombie]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in members:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)


def processor_s(pid: int) -> float:
    """Return the processor time that a process with all its threads has used; 0 if it is gone."""
    with contextlib.suppress(OSError):
        return time.clock_gettime((~pid << 3) | 2)  # the kernel's number for another process's clock
    return 0.0


def go_first() -> None:
    """Have this process run before others where that is allowed: among hundreds it would not get to stop them.

    Processes forked later inherit this, so call it after the last fork.
    """
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)


class Watch:
    """Bounds of one process and its descendants, looked at now and then while it is waited for."""

    def __init__(self, pid: int, memory: int, keep: Collection[int] = ()) -> None:
        """`memory` is in bytes, on top of what the process has now; `keep` are this process's other children."""
        self.pid, self.keep = pid, keep
        self.memory, self._first = memory, _resident(pid)
        self.tasks = task_limit()
        self._seen = tasks_in_all()
        self._next_look = time.monotonic() + _LOOK_S

    def family(self) -> list[Process]:
        """Return the process, its descendants, and the orphans among them that this process has adopted."""
        everybody, me = processes(), os.getpid()
        adopted = [p.pid for p in everybody.values() if p.parent == me and p.pid not in self.keep]
        return family({self.pid, *adopted}, everybody)

    def complaint(self) -> tuple[str, str] | None:
        """Return status and log if the process has gone too far, else None."""
        if _resident(self.pid) - self._first > self.memory:
            return self._too_much_memory()
        now, total = time.monotonic(), tasks_in_all()
        if now < self._next_look and total < self._seen + _SUDDEN:
            return None
        self._seen, self._next_look = total, now + _LOOK_S
        members = self.family()
        tasks = sum(p.tasks for p in members)
        if tasks > self.tasks:
            return "crashed", f"started {tasks} processes and threads and was stopped"
        # A forked child shares what its parent had: only what each has beyond that counts.
        if sum(max(0, p.resident - self._first) for p in members) > self.memory:
            return self._too_much_memory()
        return None

    def _too_much_memory(self) -> tuple[str, str]:
        return "out_of_memory", f"took over {self.memory >> 20} MiB and was killed"


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
