"""A page on which a judging process notes that the reference runs, for whoever has to say why the process ended.

A message could come too late, and would wake the controller while something is timed.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_PAGE = struct.Struct("<??xxxxxxdd")
"""Whether a candidate cannot have ended this process; whether the reference runs; since when; for how long before."""


@dataclass(frozen=True, slots=True)
class Activity:
    """State of a process when it ended.

    `reference_s` are the seconds that the reference has run in all. `out_of_reach` says that no candidate can have
    ended the process: none has run in it, and none could send it a signal.
    """

    in_reference: bool = False
    reference_s: float = 0.0
    out_of_reach: bool = False


class _Page:
    """The writing end. A process that is forked from this one does not have it."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.ftruncate(descriptor, mmap.PAGESIZE)
        self._bytes = mmap.mmap(descriptor, mmap.PAGESIZE)
        os.close(descriptor)
        self._bytes.madvise(mmap.MADV_DONTFORK)
        self._out_of_reach, self._depth, self._since, self._total = False, 0, 0.0, 0.0
        self._write()

    def _write(self) -> None:
        _PAGE.pack_into(self._bytes, 0, self._out_of_reach, self._depth > 0, self._since, self._total)

    def note_out_of_reach(self) -> None:
        """Note that no candidate can end this process."""
        self._out_of_reach = True
        self._write()

    def enter(self) -> None:
        """Note that the reference begins to run; calls may be nested."""
        self._depth += 1
        if self._depth == 1:
            self._since = time.monotonic()
            self._write()

    def leave(self) -> None:
        """Note that it has ended."""
        self._depth -= 1
        if self._depth == 0:
            self._total += time.monotonic() - self._since
            self._write()


_pages: list[_Page] = []
"""This process's page, once there is one."""


def path_of(log: str | Path) -> Path:
    """Return the file of the page of the job with this log."""
    return Path(log).with_suffix(".activity")


def begin(job: Mapping[str, Any]) -> None:
    """Give this process a page, for `read`."""
    _pages[:] = [_Page(path_of(job["log"]))]


def out_of_reach() -> None:
    """Note that no candidate can end this process."""
    for page in _pages:
        page.note_out_of_reach()


def end() -> None:
    """Note nothing any more, as a process must that was forked from one with a page."""
    _pages.clear()


@contextlib.contextmanager
def running_reference() -> Generator[None]:
    """Note that the reference runs, in a process that has a page."""
    page = _pages[0] if _pages else None
    if page is None:
        yield
        return
    page.enter()
    try:
        yield
    finally:
        page.leave()


def read(log: Path) -> Activity:
    """Return what the job with this log was doing when it ended, which is now; nothing where it had no page."""
    with contextlib.suppress(OSError, struct.error):
        out_of_reach, running, since, total = _PAGE.unpack_from(path_of(log).read_bytes())
        now_s = time.monotonic() - since if running else 0.0
        return Activity(running, total + max(0.0, now_s), out_of_reach)
    return Activity()
