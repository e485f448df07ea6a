"""Errors and endings of processes as results keep them: tracebacks without where this machine keeps forewarp."""

from __future__ import annotations

import os
import signal
import traceback
from pathlib import Path

_OWN = f"{Path(__file__).parents[2]}{os.sep}"
_HOOKS = ("__torch_function__", "__torch_dispatch__")
"""Functions by which forewarp watches operations: they stand between a module's line and torch's error."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the kind of an error without one."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def ended(status: int | None) -> str:
    """Say how a process ended, given its exit status or, negative, its signal, which need not have a name."""
    if status is None:
        return "ended in a way that is not known"
    if status >= 0:
        return f"left with exit status {status}"
    names = {s.value: s.name for s in signal.Signals}
    return f"ended by {names.get(-status, f'signal {-status}')}"


def format_error(error: BaseException, calls: int) -> str:
    """Return an error with its last `calls` calls and its cause; forewarp's own files are named from `forewarp/` on.

    An error that was merely being handled when it was raised is left out: torch's operators raise so.
    """
    found = traceback.TracebackException.from_exception(error)
    one: traceback.TracebackException | None = found
    while one is not None:
        frames = [frame for frame in one.stack if frame.name not in _HOOKS]
        one.stack, one = traceback.StackSummary.from_list(frames[-calls:]), one.__cause__
    return "".join(found.format(chain=error.__cause__ is not None)).replace(_OWN, "forewarp/")
