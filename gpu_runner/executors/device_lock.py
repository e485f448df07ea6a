"""A device is one process's at a time: two timings at once would both be wrong."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import platform
from collections.abc import Generator
from pathlib import Path

from forewarp.core.values import Target

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@contextlib.contextmanager
def alone_on(folder: Path, target: Target, visible: str, machine: str = "") -> Generator[None]:
    """Hold the device against other processes that keep their locks in `folder`; waits for as long as it takes.

    `visible` is the device's name among those of its kind, `machine` the one it is in, this one if left out: machines
    that share a home directory share the folder, and one of them that falls silent must not stop the others.

    GPUs of a machine are held side by side, the CPU device only while none of them is: it is the processors that feed
    them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    where = machine or _this_machine()
    with contextlib.ExitStack() as held:
        held.enter_context(_locked(folder, f"{where} {target.kind} {target.name} {visible}"))
        # Nobody overtakes: GPUs that take turns would keep the CPU device out for ever.
        with _locked(folder, f"{where} next"):
            held.enter_context(_locked(folder, f"{where} processors", shared=target.kind != "cpu"))
        yield


@contextlib.contextmanager
def _locked(folder: Path, name: str, *, shared: bool = False) -> Generator[None]:
    with (folder / hashlib.sha256(name.encode()).hexdigest()[:16]).open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


def _this_machine() -> str:
    """Return what tells this machine from others, also where images and containers give them one name."""
    with contextlib.suppress(OSError):
        return _BOOT.read_text().strip()
    return platform.node()
