"""Tracebacks as results keep them: the last calls, without where this machine keeps forewarp."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

_OWN = f"{Path(__file__).parents[2]}{os.sep}"


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the kind of an error without one."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def format_error(error: BaseException, calls: int) -> str:
    """Return an error with its last `calls` calls and its cause; forewarp's own files are named from `forewarp/` on.

    An error that was merely being handled when it was raised is left out: torch's operators raise so as a rule.
    """
    lines = traceback.format_exception(error, limit=-calls, chain=error.__cause__ is not None)
    return "".join(lines).replace(_OWN, "forewarp/")
