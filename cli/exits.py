"""Exit codes, and what is printed when a command cannot do its work. Light: imported before any verb."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from forewarp.cli import printing
from forewarp.core.errors import ForewarpError

if TYPE_CHECKING:
    from cyclopts import CycloptsError

OK, INTERNAL, USAGE, NO_KERNEL, UNAVAILABLE, NO_ARCHIVE, TRY_LATER, INTERRUPTED = 0, 1, 2, 3, 69, 73, 75, 130

_BY_CODE = {
    "usage": USAGE,
    "task": USAGE,
    "candidate": USAGE,
    "model": USAGE,
    "device": UNAVAILABLE,
    "unprotected": UNAVAILABLE,
    "archive": NO_ARCHIVE,
    "worker": TRY_LATER,
}


def of_error(error: BaseException) -> int:
    """Return the exit code of an error."""
    if not isinstance(error, ForewarpError):
        return INTERNAL
    return of_code(error.code, retryable=error.retryable)


def of_code(code: str, *, retryable: bool) -> int:
    """Return the exit code of an error that is told by its code."""
    return TRY_LATER if retryable else _BY_CODE.get(code, INTERNAL)


def failed(error: Exception, arguments: Sequence[str]) -> int:
    """Report an error as a message with its hint, as JSON where that was asked for."""
    if {"-v", "--verbose"} & set(arguments):
        printing.trace(error)
    exit_code = of_error(error)
    if isinstance(error, ForewarpError):
        report(arguments, error.code, error.message, error.hint, retryable=error.retryable)
    else:
        what = f"{type(error).__name__}: {error}"
        report(arguments, "internal", what, _hint(error))
    return exit_code


def _hint(error: Exception) -> str:
    """Return what to do about an error that nobody foresaw: whose code raised it, if a folder of PYTHONPATH did."""
    folders = [os.path.join(os.path.abspath(p), "") for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = not frames or frames[-1].f_globals.get("__name__", "").startswith("forewarp")
    # A module that lacks what forewarp looks for in it, or one that raises.
    module = sys.modules.get((error.name or "").partition(".")[0]) if isinstance(error, ImportError) else None
    lacking = error.obj if isinstance(error, AttributeError) else module
    file = str(getattr(lacking, "__file__", "")) if ours else frames[-1].f_code.co_filename
    if file.startswith(tuple(folders)):
        return f"it comes from {file}, which PYTHONPATH puts before what forewarp needs; leave that folder out"
    return "this is a bug in forewarp; run it again with -v for the traceback"


def misused(error: CycloptsError, arguments: Sequence[str]) -> int:
    """Report arguments that do not fit the verb, and what one is that is missing."""
    from cyclopts import MissingArgumentError, UnknownOptionError, UnusedCliTokensError

    if isinstance(error, UnusedCliTokensError):
        more = " ".join(map(repr, error.unused_tokens or ()))
        hint = "put a text with spaces into quotes, and name an option again for each further value"
        report(arguments, "usage", f"more arguments than it takes: {more}", hint)
        return USAGE
    command = " ".join(("forewarp", *(error.command_chain or ())))
    missing = error.argument if isinstance(error, MissingArgumentError) else None
    said = " ".join(str(error).split())
    if missing:
        typed = next((a for a in arguments if a in missing.names), None)
        said = f"{typed} needs a value after it" if typed else f"`{command}` needs {missing.name}"
    about = f"{missing.name}: {missing.parameter.help} " if missing and missing.parameter.help else ""
    if isinstance(error, UnknownOptionError):
        name = (error.token.keyword or error.token.value).lstrip("-").upper()
        first = [a.name for a in error.argument_collection if a.field_info.is_positional]
        about = f"{name} needs no flag: `{command} {' '.join(first)}`. " if name in first else ""
    report(arguments, "usage", said, f"{about}`{command} --help` says what is allowed")
    return USAGE


def interrupted(arguments: Sequence[str]) -> int:
    """Report that Ctrl-C ended the command before there was a result."""
    report(arguments, "interrupted", "interrupted before there was a result", "")
    return INTERRUPTED


def reader_gone() -> int:
    """End quietly when whoever read stdout is gone, as `head` does."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return INTERNAL


def report(arguments: Sequence[str], code: str, message: str, hint: str, *, retryable: bool = False) -> None:
    tell(message, hint)
    if wants_document(arguments):
        from forewarp.report.documents import Envelope, Failure

        verb = next((a for a in arguments if not a.startswith("-")), "")
        status = "interrupted" if code == "interrupted" else "error"
        failure = Failure(code=code, message=message, hint=hint, retryable=retryable)
        printing.document(Envelope(command=verb, status=status, summary=message, reason=message, error=failure))


def tell(message: str, hint: str) -> None:
    printing.err(f"forewarp: {message}" + (f"\n  {hint}" if hint else ""))


def wants_document(arguments: Sequence[str]) -> bool:
    """Return whether stdout is to hold JSON."""
    for flag, after in pairwise([*arguments, ""]):
        name, _, value = flag.partition("=")
        if name == "--json" or (name == "--output-format" and (value or after) in ("json", "stream-json")):
            return True
    return False
