"""Driving a run from the command line: progress, Ctrl-C, files, and the result in the end."""

from __future__ import annotations

import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from forewarp.cli import artifacts, display, exits
from forewarp.cli.documents import Failure, SearchDocument
from forewarp.cli.options import Output
from forewarp.cli.progress import shown_live
from forewarp.core.errors import ForewarpError

if TYPE_CHECKING:
    from forewarp.tools.run_report import SearchResult
    from forewarp.tools.search import SearchJob


def drive(job: SearchJob, command: str, *, out: Path | None, output: Output) -> int:
    """Do the run's work, write its files, print its result and return the exit code.

    Whatever ends the run, what it came to so far is written and printed.
    """
    error: BaseException | None = None
    with _stopping(job), shown_live(display.stderr(), quiet=output.quiet) as see:
        try:
            for event in job.events():
                see(event)
        except (Exception, KeyboardInterrupt) as e:
            error = e
    if output.verbose and error is not None:
        import traceback

        traceback.print_exception(error)
    document = _document(job.result(), command, error)
    document = artifacts.write(document, out or Path("forewarp-runs") / job.run_id)
    show(document, output)
    if error is not None and not isinstance(error, KeyboardInterrupt):
        return exits.of_error(error)
    if document.status == "interrupted":
        return exits.INTERRUPTED
    return exits.OK if document.best is not None else exits.NO_KERNEL


def show(document: SearchDocument, output: Output) -> None:
    """Print a run: the document with --json, tables and plots without."""
    if output.json:
        print(document.model_dump_json())
        return
    from forewarp.cli.run_tables import render

    render(document, display.stdout(), full=output.verbose)
    if document.error is not None:
        hint = f"\n  {document.error.hint}" if document.error.hint else ""
        print(f"forewarp: {document.error.message}{hint}", file=sys.stderr)


def _document(result: SearchResult, command: str, error: BaseException | None) -> SearchDocument:
    fields: dict[str, Any] = dict(result)
    if isinstance(error, ForewarpError):
        fields["error"] = Failure(code=error.code, message=error.message, hint=error.hint, retryable=error.retryable)
    elif isinstance(error, Exception):
        fields["error"] = Failure(code="internal", message=f"{type(error).__name__}: {error}", hint="run it with -v")
    return SearchDocument(command=command, **fields)


@contextmanager
def _stopping(job: SearchJob) -> Generator[None]:
    """Let the first Ctrl-C end the run after the measurement in progress, the second one at once."""

    def stop(number: int, frame: FrameType | None) -> None:
        job.stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("\nstopping with the best so far; press Ctrl-C again to stop at once", file=sys.stderr)

    before = {}
    # Handlers can only be set in the main thread; elsewhere the caller has its own way to stop.
    with suppress(ValueError):
        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
