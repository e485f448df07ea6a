"""The file system as a confined process sees it: what it may read, at its usual paths, and nothing else."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from forewarp.gpu_runner.worker.linux import NEW_IPC, NEW_MOUNTS, libc, succeeded, unshare

_NOSUID, _NODEV, _NOEXEC, _BIND, _REC, _PRIVATE = 2, 4, 8, 4096, 0x4000, 1 << 18
_DETACH = 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
OLD_ROOT = "/.old"
"""Mount point of the former root while the new one is filled."""


def own_view_of_processes() -> None:
    """Mount a /proc that shows the process namespace that this process is in; raises OSError."""
    _own_namespace()
    _mount_proc()


def own_mounts(
    folder: str, size: int, *, processes: bool, shown: Sequence[str] | None, links: Mapping[str, str]
) -> None:
    """Mount what only this process and its children see; raises OSError.

    `size` makes `folder` a file system in memory, of at most so many bytes. `processes` mounts a /proc of this
    process's namespace. With `shown`, no file exists but `folder`, these, and the symbolic `links` to them, by place.
    """
    _own_namespace()
    if shown is not None:
        # It cannot be had where the root is an initial RAM disk; whether it holds is tried later.
        with contextlib.suppress(OSError):
            _own_root([*shown, folder], {**links, **links_on([*shown, folder])}, folder)
    if processes:
        _mount_proc()
    if size:
        _mount("tmpfs", folder, "tmpfs", _NOSUID | _NODEV, f"size={size},mode=1777")
    with contextlib.suppress(OSError):
        unshare(NEW_IPC)
    os.chdir(folder)


def links_on(paths: Iterable[str]) -> dict[str, str]:
    """Return the symbolic links on the way to these paths: where each lies, and its text."""
    found: dict[str, str] = {}
    waiting, seen = list(paths), set[str]()
    while waiting:
        path = Path(waiting.pop())
        if str(path) in seen:
            continue
        seen.add(str(path))
        # Those of /proc name what each process has open.
        link = next((p for p in (*reversed(path.parents), path) if p.is_symlink() and p.parts[1] != "proc"), None)
        if link is not None:
            found[str(link)] = os.readlink(link)
            waiting.append(os.path.normpath(link.parent / found[str(link)] / path.relative_to(link)))
    return found


def outermost(paths: Iterable[str]) -> list[str]:
    """Return the paths that are there, without links, and without what lies in another of them."""
    real = {os.path.realpath(p) for p in paths if p.startswith("/")}
    kept: list[str] = []
    for path in sorted(p for p in real if os.path.exists(p)):
        if not any(path.startswith(f"{k}/") for k in kept):
            kept.append(path)
    return kept


def _own_namespace() -> None:
    unshare(NEW_MOUNTS)
    _mount(None, "/", None, _REC | _PRIVATE)


def _own_root(shown: Iterable[str], links: Mapping[str, str], place: str) -> None:
    """Go on below a root that holds `shown` and `links` only; `place` is any folder, to mount it on."""
    paths = outermost(shown)
    if "/" in paths:
        raise OSError("everything is shown")
    if not Path("/proc/self/uid_map").read_text().strip():
        raise OSError("in this user namespace nobody could own a file")
    _mount("tmpfs", place, "tmpfs", _NOSUID | _NODEV, "size=1m,mode=755")
    old = place + OLD_ROOT
    os.mkdir(old)
    if libc.syscall(_PIVOT_ROOT[platform.machine()], place.encode(), old.encode()) != 0:
        error = ctypes.get_errno()
        libc.umount2(place.encode(), _DETACH)
        raise OSError(error, "pivot_root")
    os.chdir("/")
    for path in paths:
        if os.path.isdir(OLD_ROOT + path):
            os.makedirs(path, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        with contextlib.suppress(OSError):  # it is gone, or was never this user's to reach
            _mount(OLD_ROOT + path, path, None, _BIND | _REC)
    for link, text in links.items():
        with contextlib.suppress(FileExistsError, NotADirectoryError):
            os.makedirs(os.path.dirname(link), exist_ok=True)
            os.symlink(text, link)
    succeeded(libc.umount2(OLD_ROOT.encode(), _DETACH), "umount")
    os.rmdir(OLD_ROOT)


def _mount_proc() -> None:
    _mount("proc", "/proc", "proc", _NOSUID | _NODEV | _NOEXEC)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str = "") -> None:
    def text(value: str | None) -> bytes | None:
        return value.encode() if value is not None else None

    status = libc.mount(text(source), text(target), text(kind), ctypes.c_ulong(flags), text(data or None))
    succeeded(status, f"mount {target}")
