"""Errors and endings of processes as results keep them: tracebacks without where this machine keeps forewarp."""

from __future__ import annotations

import os
import signal
import traceback
from pathlib import Path

_OWN = f"{Path(__file__).parents[2]}{os.sep}"


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

    An error that was merely being handled when it was raised is left out: torch's operators raise so as a rule.
    """
    lines = traceback.format_exception(error, limit=-calls, chain=error.__cause__ is not None)
    return "".join(lines).replace(_OWN, "forewarp/")
