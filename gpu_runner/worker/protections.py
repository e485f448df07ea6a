"""What stands between a hostile candidate and this machine. Each measure is tried; the ones in force are reported."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import struct
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWPID = 0x10000000, 0x40000000, 0x20000000
_LANDLOCK_CREATE, _LANDLOCK_ADD_RULE, _LANDLOCK_RESTRICT = 444, 445, 446
# All rights but executing, reading files and reading folders: a confined process may look, not touch.
_WRITES_BY_ABI = {1: 0x1FF2, 2: 0x3FF2, 3: 0x7FF2, 4: 0x7FF2, 5: 0xFFF2}
_NOBODY = 65534


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _unshare(flags: int) -> None:
    if _libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def die_with_parent() -> None:
    """Be killed when the parent goes, however it goes."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def hide_memory() -> None:
    """Forbid other processes of this user to attach to this one or to read its memory."""
    _prctl(_PR_SET_DUMPABLE, 0)


@contextlib.contextmanager
def children_in_own_pid_namespace(*, wanted: bool) -> Generator[bool]:
    """Give the one child forked inside a process namespace of its own, so that all it leaves behind dies with it.

    Yields whether that worked. This process leaves the namespace again, because it could start no thread meanwhile.
    """
    home = os.open("/proc/self/ns/pid", os.O_RDONLY)
    try:
        try:
            if wanted:
                _unshare(_CLONE_NEWPID)
        except OSError:
            wanted = False
        yield wanted
        if wanted and _libc.setns(home, _CLONE_NEWPID) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(home)


def _no_network() -> None:
    try:
        _unshare(_CLONE_NEWNET)
    except OSError:
        _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)


def _landlock(writable: Sequence[str]) -> str:
    abi: int = _libc.syscall(_LANDLOCK_CREATE, None, 0, 1)
    if abi < 1:
        raise OSError(ctypes.get_errno(), "landlock")
    writes = _WRITES_BY_ABI[min(abi, 5)]
    connects = 3 if abi >= 4 else 0  # TCP bind and connect
    scopes = 3 if abi >= 6 else 0  # abstract sockets and signals that reach outside
    attributes = struct.pack("<QQQ", writes, connects, scopes)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    ruleset: int = _libc.syscall(_LANDLOCK_CREATE, attributes, len(attributes), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "landlock ruleset")
    for path in writable:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        # A rule on a file may name file rights only: write, truncate, device control.
        allowed = writes if os.path.isdir(path) else writes & 0xC002
        rule = struct.pack("<Qi", allowed, handle)
        code: int = _libc.syscall(_LANDLOCK_ADD_RULE, ruleset, 1, rule, 0)
        os.close(handle)
        if code < 0:
            raise OSError(ctypes.get_errno(), "landlock rule")
    code = _libc.syscall(_LANDLOCK_RESTRICT, ruleset, 0)
    os.close(ruleset)
    if code < 0:
        raise OSError(ctypes.get_errno(), "landlock restrict")
    return "read-only files"


def _drop_user(writable: Sequence[str]) -> None:
    if os.geteuid() != 0:
        raise OSError("not root")
    homes = {sys.prefix, sys.base_prefix, *(p for p in sys.path if p.startswith("/"))}
    if not all(_reachable_by_all(Path(h)) for h in homes):
        raise OSError("Python is not readable by other users")
    for path in writable:
        if not path.startswith("/dev"):
            os.chown(path, _NOBODY, _NOBODY)
    os.setgroups([])
    os.setresgid(_NOBODY, _NOBODY, _NOBODY)
    os.setresuid(_NOBODY, _NOBODY, _NOBODY)


def _reachable_by_all(path: Path) -> bool:
    return all(p.stat().st_mode & 0o001 for p in (path, *path.parents) if p.is_dir())


def _limits(memory: int | None, file_bytes: int, cpu_s: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
    resource.setrlimit(resource.RLIMIT_NPROC, (4096, 4096))
    if memory is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def confine(
    writable: Sequence[str],
    *,
    memory: int | None,
    file_bytes: int = 256 << 20,
    cpu_s: int = 600,
    drop_user: bool = True,
) -> list[str]:
    """Confine this process and all it starts; return the names of the protections in force.

    `writable` lists the only folders and devices that stay writable. `memory` bounds the address space beyond today's;
    None for processes that use CUDA, which reserves far more address space than memory. `drop_user` changes to the user
    nobody where this runs as root and Python's own files stay readable.
    """

    def limits() -> None:
        _limits(memory, file_bytes, cpu_s)

    def no_new_privileges() -> None:
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)

    in_force = ["own process", "own session"]
    steps: list[tuple[str, Callable[[], object]]] = [
        ("memory, time and file limits" if memory is not None else "time and file limits", limits),
        ("no network", _no_network),
        *([("user nobody", lambda: _drop_user(writable))] if drop_user else []),
        ("no new privileges", no_new_privileges),
        ("read-only files", lambda: _landlock([p for p in writable if os.path.exists(p)])),
        ("dies with its parent", die_with_parent),
    ]
    for name, step in steps:
        try:
            step()
        except (OSError, ValueError):
            continue
        in_force.append(name)
    return in_force


# CUDA names its threads through /proc/self, and fails to start where it cannot.
DEVICE_FILES = ("/dev/null", "/dev/shm", "/proc/self", *sorted(str(p) for p in Path("/dev").glob("nvidia*")))
