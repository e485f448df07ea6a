"""A watch over confined processes and what they start: memory, number of tasks, and what the machine has left."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from forewarp.gpu_runner.worker import linux, mounts, protections
from forewarp.gpu_runner.worker.channel import KILLED, MACHINE
from forewarp.gpu_runner.worker.memory import HostMemory, number_in
from forewarp.gpu_runner.worker.protections import task_limit, tasks_in_all
from forewarp.gpu_runner.worker.tracebacks import ended

_LOOK_S = 0.5
_SUDDEN = 50
"""New tasks on the whole machine since the last look that make the next look come at once."""
_WAIT_S, _HOST_WAIT_S = 0.05, 0.1
"""How often `run_watched` looks; where only the machine's memory is looked at, while something is timed, less often."""
RESERVE_BYTES = 512 << 20
"""Left to the machine; an eighth of what can be had, where that is less."""
MOST = 0.5
"""Share of the memory that went since the watch began from which on whoever took it is to blame."""
_GB = 1e9


@dataclass(frozen=True, slots=True)
class Process:
    """One line of /proc: threads, bytes, processor time with ended children's, and kernel ticks at its start."""

    pid: int
    parent: int
    tasks: int
    resident: int
    zombie: bool
    processor_s: float
    started: int


def processes() -> dict[int, Process]:
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
    me = os.getpid()
    return [p.pid for p in processes().values() if p.parent == me and p.pid not in keep]


def end_strays(keep: Collection[int], within_s: float = 8.0) -> None:
    """Kill adopted orphans and their descendants, over and over, until none is left or the time is up."""
    deadline, pause_s = time.monotonic() + within_s, 0.001
    while (found := strays(keep)) and time.monotonic() < deadline:
        end(found)
        for pid in found:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.05)  # looking takes time from those that die


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
    """Have this process run before others, if allowed, or hundreds would keep it from stopping them."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, -20)


class Watch:
    """Bounds of one process and its descendants, looked at now and then while it is waited for."""

    def __init__(self, pid: int, memory: int, keep: Collection[int] = ()) -> None:
        self.pid, self.keep = pid, keep
        self.memory, self._first = memory, _in_memory(pid)[0]
        self.tasks = task_limit()
        self._seen = tasks_in_all()
        self._next_look = time.monotonic() + _LOOK_S

    def family(self) -> list[Process]:
        """Return the process, its descendants, and the orphans among them that this process has adopted."""
        everybody, me = processes(), os.getpid()
        adopted = [p.pid for p in everybody.values() if p.parent == me and p.pid not in self.keep]
        return family({self.pid, *adopted}, everybody)

    def violation(self) -> tuple[str, str] | None:
        if _in_memory(self.pid)[0] - self._first > self.memory:
            return self._too_much_memory()
        now, total = time.monotonic(), tasks_in_all()
        if now < self._next_look and total < self._seen + _SUDDEN:
            return None
        self._seen, self._next_look = total, now + _LOOK_S
        members = self.family()
        tasks = sum(p.tasks for p in members)
        if tasks > self.tasks:
            return "crashed", f"started {tasks} processes and threads and was stopped"
        if sum(p.resident for p in members) > self.memory and sum(map(self._taken, members)) > self.memory:
            return self._too_much_memory()
        return None

    def _taken(self, process: Process) -> int:
        """Return the bytes that a process has beyond what it shares; one that runs another program shares little."""
        if process.pid != self.pid:
            own = number_in(Path(f"/proc/{process.pid}/smaps_rollup"), "Pss:", missing=-1)
            if own >= 0:
                return own << 10
        # A forked child, which may not be looked into, shares what its parent had.
        return max(0, process.resident - self._first)

    def _too_much_memory(self) -> tuple[str, str]:
        return "out_of_memory", f"took over {self.memory >> 20} MiB and was killed"


@dataclass(frozen=True, slots=True)
class Suspect:
    """Processes that may have taken the memory, with the job's `status` then, and a `name` (and space) for the log."""

    name: str
    status: str
    pids: Collection[int]


def it_alone(pid: int) -> list[Suspect]:
    return [Suspect("", "out_of_memory", [pid])]


class HostWatch:
    """Watch over the machine's memory, which says what took it, before the kernel ends any process."""

    def __init__(self, suspects: Callable[[int], Sequence[Suspect]] = it_alone, host: HostMemory | None = None) -> None:
        self._suspects, self._host = suspects, host or HostMemory()
        self._first = self._host.available()
        self._own = _private(os.getpid())  # which each process that is forked begins with
        self._reserve = min(RESERVE_BYTES, (self._first or 0) // 8)

    def violation(self, pid: int) -> tuple[str, str] | None:
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
    resident, shared = _in_memory(pid)
    return resident - shared


def _in_memory(pid: int) -> tuple[int, int]:
    """Return the bytes of a process in memory, and those of them that it shares with files; 0 if it is gone."""
    with contextlib.suppress(OSError, IndexError, ValueError):
        resident, shared = Path(f"/proc/{pid}/statm").read_text().split()[1:3]
        return int(resident) * os.sysconf("SC_PAGE_SIZE"), int(shared) * os.sysconf("SC_PAGE_SIZE")
    return 0, 0


def run_watched(
    work: Callable[[bool], None],
    memory: int | None,
    *,
    passes_on: bool = True,
    host: HostWatch | None = None,
    cpu_s: int | None = None,
) -> tuple[str, str] | None:
    """Fork, do `work`, and wait for it; return status and log if it took too much and was stopped, else None.

    `work` is told whether it is the first of a process namespace. If it fails, so does this process, in the same way;
    or the return value tells so, without `passes_on`. `memory` bounds the resident bytes of it and all it starts; None
    looks at none, which takes processor time. `host` stops it where the machine's memory runs low. `cpu_s` is the limit
    of processor time that `work` sets itself: the kernel kills what passes it, as anybody else might.
    """
    linux.adopt_orphans()
    pid = _fork(work, wanted=True) or _fork(work, wanted=False)
    descriptor, violation = linux.end_of(pid), None
    watching = None
    if memory is not None:
        go_first()
        watching = Watch(pid, memory)
    every_s = _WAIT_S if memory is not None else _HOST_WAIT_S if host is not None else None
    while violation is None and not select.select([descriptor], [], [], every_s)[0]:
        violation = (watching and watching.violation()) or (host and host.violation(pid)) or None
    end([pid])
    _, code, used = os.wait4(pid, 0)
    os.close(descriptor)
    end_strays(())
    if violation is None and cpu_s is not None and code != 0 and used.ru_utime + used.ru_stime >= cpu_s:
        violation = "timeout", f"took all of its {cpu_s} s of processor time"
    if violation is None and code != 0:
        status = os.waitstatus_to_exitcode(code)
        if passes_on:
            _end_as(status)
        return (MACHINE, KILLED) if status == -signal.SIGKILL else ("crashed", ended(status))
    return violation


def _fork(work: Callable[[bool], None], *, wanted: bool) -> int:
    """Fork into a process namespace if that is `wanted`, and to be had; return 0 where its /proc is not to be had."""
    ready, telling = os.pipe()
    with linux.children_in_own_pid_namespace(wanted=wanted) as contained:
        pid = os.fork()
        if pid == 0:
            os.close(ready)
            _run(work, contained, telling)
    os.close(telling)
    with os.fdopen(ready, "rb") as told:
        begun = told.read(1)
    if begun or not contained:
        return pid
    os.waitpid(pid, 0)
    return 0


def _run(work: Callable[[bool], None], contained: bool, telling: int) -> None:
    status = 1
    try:
        protections.die_with_parent()
        if contained:
            # With the /proc of another namespace, what it reads there of its children would be about others.
            mounts.own_view_of_processes()
        os.write(telling, b"1")
        os.close(telling)
        work(contained)
        status = 0
    except BaseException:  # the last line of a process: say why on the log, then go
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _end_as(status: int) -> None:
    if status < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)
