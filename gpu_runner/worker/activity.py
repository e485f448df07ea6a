"""A page on which a judging process notes that the reference runs, for whoever has to say why the process ended.

A message could come too late, and would wake the controller while something is timed.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path


class _Page(ctypes.Structure):
    """`depth` counts nested runs of the reference, the first since `since`; `total` are the seconds of earlier ones."""

    _fields_ = (
        ("out_of_reach", ctypes.c_bool),
        ("depth", ctypes.c_int),
        ("since", ctypes.c_double),
        ("total", ctypes.c_double),
    )


@dataclass(frozen=True, slots=True)
class Activity:
    """State of a process when it ended.

    `reference_s` are the seconds that the reference has run. `out_of_reach`: no candidate can have ended the process.
    """

    in_reference: bool = False
    reference_s: float = 0.0
    out_of_reach: bool = False


_pages: list[_Page] = []
"""This process's page, once there is one."""


def path_of(log: str | Path) -> Path:
    return Path(log).with_suffix(".activity")


def begin(log: str) -> None:
    """Give this process, of the job with this log, a page for `read`; a process forked from this one has none."""
    with open(path_of(log), "w+b", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.truncate(mmap.PAGESIZE)
        shared = mmap.mmap(file.fileno(), mmap.PAGESIZE)
    shared.madvise(mmap.MADV_DONTFORK)
    _pages[:] = [_Page.from_buffer(shared)]


def out_of_reach() -> None:
    for page in _pages:
        page.out_of_reach = True


def end() -> None:
    """Note nothing any more, as a process must that was forked from one with a page."""
    _pages.clear()


@contextlib.contextmanager
def running_reference() -> Generator[None]:
    """Note that the reference runs, in a process that has a page; may be nested."""
    page = _pages[0] if _pages else _Page()
    if page.depth == 0:
        page.since = time.monotonic()
    page.depth += 1
    try:
        yield
    finally:
        if page.depth == 1:
            page.total += time.monotonic() - page.since
        page.depth -= 1


def read(log: Path) -> Activity:
    """Return what the job with this log was doing when it ended, which is now; nothing where it had no page."""
    with contextlib.suppress(OSError, ValueError):
        page = _Page.from_buffer_copy(path_of(log).read_bytes())
        now_s = max(0.0, time.monotonic() - page.since) if page.depth else 0.0
        return Activity(page.depth > 0, page.total + now_s, page.out_of_reach)
    return Activity()
