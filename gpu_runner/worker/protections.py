"""Protections between hostile code and this machine. Each is taken, then tried; those that hold are reported."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
import resource
import select
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from forewarp.gpu_runner.worker import environment, linux, mounts, toolchain
from forewarp.gpu_runner.worker.least import HIDDEN, LIMITS, NO_MEMORY, NO_NETWORK, NO_SIGNALS, READ_ONLY, require
from forewarp.gpu_runner.worker.linux import NOBODY, libc

_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS = 1, 2, 38, 39
OWN_PROCESSES = "own process namespace"
MOST_OPEN = 1024
"""Files of one process where its memory is limited: each pair of sockets holds 0.4 MB that no such limit counts."""
_OTHERS = ("/etc/passwd", "/etc/hostname", "/etc/shadow")
"""Files that no confined process needs."""
_MOST_DESCRIPTORS, _MAP_NORESERVE = 1 << 16, 0x4000


def die_with_parent() -> None:
    linux.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def hide_memory() -> None:
    """Forbid other processes of this user to attach to this one or to read its memory."""
    linux.prctl(linux.PR_SET_DUMPABLE, 0)


def sends_no_signals(in_force: Collection[str]) -> bool:
    """Return whether a process with these protections can send no signal to the one that started it."""
    with contextlib.suppress(OSError):
        return OWN_PROCESSES in in_force or (READ_ONLY in in_force and linux.landlock_version() >= linux.SIGNALS_SINCE)
    return OWN_PROCESSES in in_force


def keep_signals_inside() -> None:
    """Refuse signals to processes that are not started from here on, where the kernel knows how."""
    with contextlib.suppress(OSError):
        linux.prctl(_PR_SET_NO_NEW_PRIVS, 1)
        linux.restrict_signals()


def hide_files(folder: str, reads: Sequence[str]) -> None:
    """Leave what the CPU device needs, `folder` and `reads` as the only files, and no network, if possible."""
    shown = (*device_files("cpu"), *toolchain.readable("cpu"), *reads)
    with contextlib.suppress(OSError):
        linux.no_network()
        mounts.own_mounts(folder, 0, processes=False, shown=shown, links=toolchain.links("cpu"))
        # Those of the new user namespace would let it into a process namespace, and not out of it.
        linux.drop_capabilities(reading=False)


def device_files(device: str) -> list[str]:
    """Return what a process that uses the device must write to; CUDA names its threads through /proc/self."""
    if device != "cuda":
        return ["/dev/null"]
    return ["/dev/null", "/dev/shm", "/proc/self", *sorted(str(p) for p in Path("/dev").glob("nvidia*"))]


def task_limit() -> int:
    """Return how many processes and threads a candidate may have: enough for a parallel build on every core."""
    return 64 + 16 * (os.cpu_count() or 1)


def tasks_in_all() -> int:
    return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])


@dataclass(frozen=True, slots=True)
class Confinement:
    """Settings by which a process confines itself.

    `folder` and `files` are all that stays writable; with `reads_only`, that and these all that stays readable.
    `memory` bounds the address space beyond today's; None for CUDA, which reserves far more than it uses. `keep` are
    descriptors to keep beside the standard three, None for all. `folder_bytes` makes the folder a file system in memory
    of that size. `own_processes` is for the first of a process namespace. `drop_user` makes the superuser nobody, who
    has to read `reads`. `cautious` leaves out what a driver might not bear. `signals` lets it send signals to earlier
    processes. `stoppable` keeps what it starts where stopping its process group stops it.
    """

    folder: str
    files: Sequence[str] = ("/dev/null",)
    memory: int | None = None
    keep: Collection[int] | None = None
    folder_bytes: int = 0
    own_processes: bool = False
    drop_user: bool = True
    reads: Sequence[str] = ()
    reads_only: Sequence[str] | None = None
    cautious: bool = False
    signals: bool = False
    stoppable: bool = False
    file_bytes: int = 256 << 20
    cpu_s: int = 600

    def steps(self) -> list[Step]:
        steps: list[Step] = []
        if self.keep is not None:
            closing, closed = partial(close_descriptors, self.keep), partial(_none_but, self.keep)
            steps.append(Step("no inherited descriptors", closing, closed))
        steps.append(Step("no secrets in the environment", environment.scrub, environment.is_clean))
        steps.append(Step(LIMITS, self._limit, self._is_limited))
        if self.memory is not None:
            limiting, limited = partial(_limit_memory, self.memory), partial(_too_much_is_refused, self.memory)
            steps.append(Step("memory limit", limiting, limited))
        # Where no namespace is to be had, the filter below refuses sockets.
        steps.append(Step(NO_NETWORK, lambda: _tried(linux.no_network), _is_cut_off))
        if not self.cautious:
            steps += self._mounting()
            if self.drop_user:
                to_read = (*self.reads, *(sys.path if self.reads_only is None else self.reads_only))
                becoming = partial(linux.become_nobody, [self.folder], to_read)
                steps.append(Step("user nobody", becoming, lambda: set(os.getresuid()) == {NOBODY}))
            # Nobody, started by nobody, still has to read what its parent could.
            dropping = lambda: linux.drop_capabilities(reading=os.geteuid() == NOBODY)  # noqa: E731
            steps.append(Step("no capabilities", dropping, linux.holds_none))
        # Landlock needs this; without it there is none.
        forbidding, forbidden = partial(linux.prctl, _PR_SET_NO_NEW_PRIVS, 1), (_PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
        steps.append(Step("no new privileges", forbidding, lambda: libc.prctl(*forbidden) == 1))
        steps += self._landlock()
        steps.append(Step("dies with its parent", die_with_parent, _will_die_with_parent))
        if not self.cautious:
            filtering = partial(linux.filter_calls, count_memory=self.memory is not None, stoppable=self.stoppable)
            steps.append(Step("system calls filtered", filtering, _unsharing_is_refused))
        # What several of these see to; that it holds is tried.
        steps.append(Step(NO_SIGNALS, lambda: None, _signals_are_refused))
        steps.append(Step(NO_MEMORY, lambda: None, _memory_is_refused))
        if self.memory is not None:
            steps.append(Step("no local sockets", lambda: None, _local_sockets_are_refused))
        return steps

    def _limit(self) -> None:
        _lower(resource.RLIMIT_CORE, 0)
        _lower(resource.RLIMIT_FSIZE, self.file_bytes)
        _lower(resource.RLIMIT_CPU, self.cpu_s, 5)
        if self.memory is not None:
            _lower(resource.RLIMIT_NOFILE, MOST_OPEN)
        # This limit counts what else the user runs, and does not bind the superuser: a watch over the tasks does.
        others = 0 if os.geteuid() == 0 else tasks_in_all()
        _lower(resource.RLIMIT_NPROC, 4 * task_limit() + others)

    def _is_limited(self) -> bool:
        bounds = {resource.RLIMIT_FSIZE: self.file_bytes, resource.RLIMIT_CPU: self.cpu_s}
        return all(0 <= resource.getrlimit(what)[0] <= most for what, most in bounds.items())

    def _mounting(self) -> list[Step]:
        """Return what one change of mounts gives, as protections of their own."""
        # What CUDA looks for where is not known.
        hiding = self.reads_only is not None and self.memory is not None
        shown = (*self.files, *self.reads, *(self.reads_only or ())) if hiding else None
        steps: list[Step] = []
        if hiding:
            steps.append(Step("other files do not exist", lambda: None, _nothing_else_exists))
        if self.folder_bytes:
            steps.append(Step("private temporary files", lambda: None, partial(_is_mounted, self.folder)))
        elif self.own_processes:
            steps.append(Step("own view of processes", lambda: None, _sees_itself_alone))
        if steps:
            how: dict[str, Any] = {"processes": self.own_processes, "shown": shown, "links": toolchain.links("cpu")}
            mounting = partial(mounts.own_mounts, self.folder, self.folder_bytes, **how)
            steps[0] = replace(steps[0], take=lambda: _tried(mounting))
        return steps

    def _landlock(self) -> list[Step]:
        """Return the one restriction as two protections: not to write, and not to read."""
        writable = [p for p in (self.folder, *self.files) if os.path.exists(p)]
        hiding = self.reads_only is not None and not self.cautious
        readable = (*(self.reads_only or ()), *self.reads) if hiding else None
        restricting = partial(linux.restrict_files, writable, readable, signals=self.signals)
        steps = [Step(READ_ONLY, restricting, partial(_writing_is_refused, self.folder, writable))]
        return [*steps, Step(HIDDEN, lambda: None, _reading_is_refused)] if hiding else steps


@dataclass(frozen=True, slots=True)
class Step:
    """One protection: what takes it, and a cheap try whether it holds; not if either raises OSError."""

    name: str
    take: Callable[[], object]
    holds: Callable[[], bool] = lambda: True


def confine(how: Confinement) -> list[str]:
    """Confine this process and all it starts; return the names of the protections that were tried and hold.

    Raises `Unprotected` where they are too few; around CUDA, where no limit counts memory, not yet.
    """
    in_force = take(how)
    return require(in_force) if how.memory is not None else in_force


def take(how: Confinement) -> list[str]:
    """Confine as `confine` does, but refuse nothing: for a process whose parent refuses, or is confined itself."""
    with contextlib.suppress(PermissionError):  # it leads a session already
        os.setsid()
    taken: list[Step] = []
    for step in how.steps():
        with contextlib.suppress(OSError, ValueError):
            step.take()
            taken.append(step)
    session = ["own session"] if os.getsid(0) == os.getpid() else []
    return ["own process", *session, *(step.name for step in taken if _holds(step))]


def _holds(step: Step) -> bool:
    try:
        return step.holds()
    except (OSError, ValueError):
        return False


def close_descriptors(keep: Collection[int]) -> None:
    kept = sorted({0, 1, 2, *keep})
    for before, after in zip(kept, [*kept[1:], max(kept[-1] + 1, _MOST_DESCRIPTORS)], strict=True):
        os.closerange(before + 1, after)


def _none_but(keep: Collection[int]) -> bool:
    asked = set(range(3, 256)) - set(keep)
    poll = select.poll()
    for descriptor in asked:
        poll.register(descriptor, 0)
    return sum(bool(event & select.POLLNVAL) for _, event in poll.poll(0)) == len(asked)


def _lower(what: int, most: int, grace: int = 0) -> None:
    """Lower a limit and its ceiling, which lies `grace` above it; what is lower already stays."""
    _, ceiling = resource.getrlimit(what)
    hard = most + grace if ceiling == resource.RLIM_INFINITY else min(most + grace, ceiling)
    resource.setrlimit(what, (min(most, hard), hard))


def _limit_memory(most: int) -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    _lower(resource.RLIMIT_AS, pages * resource.getpagesize() + most)


def _refused(act: Callable[[], object], *errors: type[Exception]) -> bool:
    try:
        act()
    except errors:
        return True
    return False


def _too_much_is_refused(most: int) -> bool:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
    more = most + (1 << 30)
    return _refused(lambda: mmap.mmap(-1, more, flags=flags, prot=mmap.PROT_READ).close(), OSError, ValueError)


def _tried(take: Callable[[], object]) -> None:
    with contextlib.suppress(OSError):
        take()


def _is_cut_off() -> bool:
    """Return whether not even this machine is reached; connecting a datagram socket sends nothing."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as local:
            return local.connect_ex(("127.0.0.1", 9)) != 0
    except PermissionError:
        return True


def _local_sockets_are_refused() -> bool:
    return _refused(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).close(), PermissionError)


def _signals_are_refused() -> bool:
    """Return whether the parent cannot be sent a signal; none is sent. In a namespace of its own it has no number."""
    parent = os.getppid()
    return parent == 0 or _refused(lambda: os.kill(parent, 0), PermissionError)


def _memory_is_refused() -> bool:
    """Return whether no byte of the parent's memory is read: at an address where none is, so that it never is."""
    parent = os.getppid()
    ours = ctypes.create_string_buffer(1)
    local, there = (ctypes.c_size_t * 2)(ctypes.addressof(ours), 1), (ctypes.c_size_t * 2)(0, 1)
    reading = libc.process_vm_readv(parent, local, 1, there, 1, ctypes.c_ulong(0))
    refused = reading < 0 and ctypes.get_errno() in (errno.EPERM, errno.ESRCH, errno.ENOSYS)
    return refused and not (parent and _opens(f"/proc/{parent}/mem"))


def _is_mounted(folder: str) -> bool:
    return os.stat(folder).st_dev != os.stat(os.path.dirname(folder)).st_dev


def _sees_itself_alone() -> bool:
    return [name for name in os.listdir("/proc") if name.isdigit()] == [str(os.getpid())]


def _will_die_with_parent() -> bool:
    number = ctypes.c_int()
    return libc.prctl(_PR_GET_PDEATHSIG, ctypes.byref(number), 0, 0, 0) == 0 and number.value == signal.SIGKILL


def _unsharing_is_refused() -> bool:
    return libc.unshare(0) != 0 and ctypes.get_errno() == errno.EPERM


def _writing_is_refused(folder: str, writable: Sequence[str]) -> bool:
    """Try to make a file beside the own folder, and where everybody may."""
    places = {os.path.realpath(p) for p in (os.path.dirname(folder), "/tmp", "/dev/shm", tempfile.gettempdir())}
    own = os.path.realpath(folder)
    within_own = {p for p in places if p.startswith(f"{own}/")}  # as caches are
    for place in places - within_own - {os.path.realpath(w) for w in writable}:
        path = os.path.join(place, f"forewarp-{os.getpid()}-{os.urandom(4).hex()}")
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC))
        except OSError as e:
            if e.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT):
                return False
        else:
            os.unlink(path)
            return False
    return True


def _reading_is_refused() -> bool:
    """Try the root, files that are for everybody's eyes and the superuser's, and another process's variables."""
    return not any(_opens(p) for p in ("/", *_OTHERS, f"/proc/{os.getppid()}/environ"))


def _nothing_else_exists() -> bool:
    return not any(os.path.lexists(p) for p in (*_OTHERS, mounts.OLD_ROOT))


def _opens(path: str) -> bool:
    return not _refused(lambda: os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC)), OSError)
