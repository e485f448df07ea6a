"""Driving a run from the command line: progress, Ctrl-C, files, and the result in the end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from forewarp.cli import exits, printing, stream
from forewarp.cli.options import Output
from forewarp.report import artifacts, display
from forewarp.report.documents import EstimateDocument, Failure, SearchDocument
from forewarp.report.progress import shown_live
from forewarp.report.tally import so_far
from forewarp.tools.signals import stopping

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from forewarp.tools.estimate import Estimate
    from forewarp.tools.run_report import RunRecord
    from forewarp.tools.search import SearchJob


def drive(job: SearchJob, command: str, *, out: Path | None, output: Output, events: str | None = None) -> int:
    """Do the run's work, write its files, print its result and return the exit code.

    Whatever ends the run, what it came to so far is written and printed. `events` is where each event goes as a line.
    """
    if events == stream.STDOUT:
        # Two kinds of output would not go together: the result is the stream's last line.
        output = replace(output, json=True)
    error = _work(job, output, events)
    if output.verbose and error is not None:
        printing.trace(error)
    document, record = artifacts.leave(job, command, error, out)
    show(document, output, record)
    if error is not None and not isinstance(error, KeyboardInterrupt):
        return exits.of_error(error)
    if document.status == "interrupted":
        return exits.INTERRUPTED
    return exits.OK if document.best is not None else exits.NO_KERNEL


def _work(job: SearchJob, output: Output, events: str | None) -> BaseException | None:
    """Do the run's work with a view of it on stderr; returns what ended it before its time."""
    console = display.stderr()
    quiet = output.quiet or (output.json and not console.is_terminal)
    tally = so_far(job)
    if job.estimate is not None and not output.quiet:
        announce(job.estimate, console)
    view = shown_live(console, quiet=quiet, plain=stream.on_terminal(events), tally=tally, spend=job.spend)
    try:
        with stream.streamed(job.archive, job.run_id, events) as lines:
            try:
                with stopping(job, printing.err), view as see:
                    for event in job.events():
                        see(event)
                        if lines is not None:
                            lines.catch_up()
            finally:
                # What ended the run is in the archive, but nobody was left to be told.
                if lines is not None:
                    lines.catch_up()
    except (Exception, KeyboardInterrupt) as e:
        return e
    return None


def foresee(found: Estimate, output: Output) -> int:
    """Print what a run will probably take; nothing else happens."""
    if output.json:
        document = EstimateDocument(command="optimize", status="estimated", **dict(found))
        printing.document(document)
        return exits.OK
    console = display.stdout()
    console.print(_amounts(found))
    console.print(found.summary, style="bold")
    console.print(f"From {found.basis}; nothing was begun.", style="dim")
    return exits.OK


def announce(found: Estimate, console: Console) -> None:
    """Say before a run begins what it will probably take."""
    console.print(f"estimate: {found.summary}", soft_wrap=True)
    console.print(f"          from {found.basis}", soft_wrap=True, style="dim")


def _amounts(found: Estimate) -> Table:
    from rich.table import Table

    from forewarp.tools.estimate import clock, number

    title = f"{found.task} on {found.device.name}" + (" (replay)" if found.source == "replay" else "")
    table = Table("what", "low", "likely", "high", "cap", box=None, title=title, title_justify="left")
    limit = found.limit
    for name, value, cap, form in (
        ("measurements", found.measurements, limit.measurements, number),
        ("wall time", found.wall_s, limit.wall_s, clock),
        ("device time", found.device_s, limit.device_s, clock),
        ("tokens", found.tokens, limit.tokens, number),
        ("dollars", found.dollars, limit.dollars, "${:.2f}".format),
    ):
        said = ["unknown"] * 3 if value is None else [form(v) for v in (value.low, value.likely, value.high)]
        table.add_row(name, *said, "" if cap is None else form(cap))
    return table


def show(document: SearchDocument, output: Output, record: RunRecord) -> None:
    """Print a run: the document with --json, tables and plots without."""
    if output.json:
        printing.document(document)
        return
    from forewarp.report.run_tables import render

    render(document, display.stdout(), record if output.verbose else None)
    complain(document.error)


def complain(error: Failure | None) -> None:
    """Say on stderr what ended a run before its time, if anything did."""
    if error is not None:
        hint = f"\n  {error.hint}" if error.hint else ""
        printing.err(f"forewarp: {error.message}{hint}")
