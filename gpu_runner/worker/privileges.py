"""Namespaces, capabilities and the user that a confined process runs as."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_KEEPCAPS, _PR_CAPBSET_DROP, _PR_SET_CHILD_SUBREAPER, _PR_CAP_AMBIENT = 8, 24, 36, 47
_AMBIENT_RAISE, _AMBIENT_CLEAR = 2, 4
_CAP_VERSION = 0x20080522
_CAP_DAC_READ_SEARCH, _CAP_LAST = 2, 63
_CLONE_NEWNS, _CLONE_NEWUSER, _CLONE_NEWNET, _CLONE_NEWPID = 0x20000, 0x10000000, 0x40000000, 0x20000000
_CLONE_NEWIPC = 0x08000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x4000, 1 << 18
NOBODY = 65534


def prctl(option: int, *values: int) -> None:
    """Call prctl; raises OSError."""
    if libc.prctl(option, *(ctypes.c_ulong(v) for v in (*values, 0, 0, 0, 0)[:4])) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _unshare(flags: int) -> None:
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies, so that none gets away."""
    with contextlib.suppress(OSError):
        prctl(_PR_SET_CHILD_SUBREAPER, 1)


@contextlib.contextmanager
def children_in_own_pid_namespace(*, wanted: bool) -> Generator[bool]:
    """Give the one child forked inside a process namespace of its own, so that all it leaves behind dies with it.

    Yields whether that worked. This process leaves the namespace again, because it could start no thread meanwhile.
    """
    home = -1
    try:
        try:
            if wanted:
                home = os.open("/proc/self/ns/pid", os.O_RDONLY)
                _unshare(_CLONE_NEWPID)
        except OSError:
            wanted = False
        yield wanted
        if wanted and libc.setns(home, _CLONE_NEWPID) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        if home >= 0:
            os.close(home)


def own_view_of_processes() -> None:
    """Mount a /proc that shows the process namespace that this process is in; raises OSError."""
    _own_mount_namespace()
    _mount_proc()


def no_network() -> None:
    """Move to a network namespace without interfaces, with a user namespace's help where this is no superuser."""
    try:
        _unshare(_CLONE_NEWNET)
    except OSError:
        _unshare(_CLONE_NEWUSER | _CLONE_NEWNET)


def own_mounts(folder: str, size: int, *, processes: bool) -> None:
    """Mount a memory-backed `folder` of at most `size` bytes (0: none) that only this process and its children see.

    `processes` also mounts a /proc that shows the process namespace that this process is in. Raises
    OSError, also for whoever is no superuser: inside a user namespace nobody could write to the folder.
    """
    if os.geteuid() != 0:
        raise OSError("not root")
    _own_mount_namespace()
    if processes:
        _mount_proc()
    if size:
        _mount("tmpfs", folder, "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={size},mode=1777")
    with contextlib.suppress(OSError):
        _unshare(_CLONE_NEWIPC)
    os.chdir(folder)


def _own_mount_namespace() -> None:
    _unshare(_CLONE_NEWNS)
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)


def _mount_proc() -> None:
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    def text(value: str | None) -> bytes | None:
        return value.encode() if value is not None else None

    if libc.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(data or None)) != 0:
        raise OSError(ctypes.get_errno(), f"mount {target}")


def become_nobody(folders: Sequence[str], reads: Sequence[str]) -> None:
    """Change to the user nobody, who gets `folders`; raises OSError where this is no superuser.

    Where Python's own files, the way to `folders`, or `reads` are not for everybody's eyes, the right to read files is
    kept.
    """
    if os.geteuid() != 0:
        raise OSError("not root")
    homes = {sys.prefix, sys.base_prefix, *(p for p in reads if p.startswith("/"))}
    homes |= {os.path.dirname(f) for f in folders}
    hidden = not all(_reachable_by_all(Path(h)) for h in homes)
    for path in folders:
        os.chown(path, NOBODY, NOBODY)
    if hidden:
        prctl(_PR_SET_KEEPCAPS, 1)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    if hidden:
        _set_capabilities(1 << _CAP_DAC_READ_SEARCH)
        prctl(_PR_CAP_AMBIENT, _AMBIENT_RAISE, _CAP_DAC_READ_SEARCH)


def _reachable_by_all(path: Path) -> bool:
    return all(p.stat().st_mode & 0o001 for p in (path, *path.parents) if p.is_dir())


def _set_capabilities(mask: int) -> None:
    header = struct.pack("<Ii", _CAP_VERSION, 0)
    low, high = mask & 0xFFFFFFFF, mask >> 32
    if libc.capset(header, struct.pack("<6I", low, low, low, high, high, high)) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def drop_capabilities(*, reading: bool) -> None:
    """Give up every capability for good, but that of reading files where `become_nobody` kept it.

    Raises OSError if any other is left.
    """
    with contextlib.suppress(OSError):
        for capability in range(_CAP_LAST):
            prctl(_PR_CAPBSET_DROP, capability)
    reads = 1 << _CAP_DAC_READ_SEARCH
    if _held() != reads or not reading:
        with contextlib.suppress(OSError):
            prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR)
        _set_capabilities(0)
    if _held() & ~reads:
        raise OSError("capabilities are left")


def holds_none() -> bool:
    """Return whether this process has no capability, and none that it could take back."""
    status = Path("/proc/self/status").read_text()
    return not any(int(status.partition(f"{name}:")[2].split()[0], 16) for name in ("CapEff", "CapPrm", "CapInh"))


def _held() -> int:
    return int(Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0], 16)
