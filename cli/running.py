"""Driving runs from the command line: progress, events, Ctrl-C, files, and the result in the end."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from forewarp.cli import exits, printing
from forewarp.cli.options import Output
from forewarp.core.errors import UsageError
from forewarp.core.files import writing
from forewarp.report import artifacts, display
from forewarp.report.documents import OptimizeModelDocument, SearchDocument
from forewarp.report.progress import shown_live
from forewarp.report.tally import so_far
from forewarp.tools.signals import stopping

if TYPE_CHECKING:
    from forewarp.archive.store import Archive
    from forewarp.tools.run_report import RunRecord
    from forewarp.tools.search import SearchJob

STDOUT = "-"
_BEGINNING = b'{"seq":'


def drive(job: SearchJob, command: str, out: Path | None, output: Output, events: str | None = None) -> int:
    """Do the work of a run, write the files, print the result; return the exit code.

    Whatever ends the work, what it came to so far is written and printed. `events` is where each event goes as a line.
    """
    if events == STDOUT:
        # Two kinds of output would not go together: the result is the stream's last line.
        output = replace(output, json=True)
    error = _work(job, output, events)
    document, record = artifacts.leave(job, command, error, out)
    return ended(document, error, output, rendering(document, output, record), kept=document.best is not None)


def _work(job: SearchJob, output: Output, events: str | None) -> BaseException | None:
    """Do the work with a view of it on stderr; returns what ended it before its time."""
    console = display.stderr()
    quiet = output.quiet or (output.json and not console.is_terminal)
    plain = events == STDOUT and sys.stdout.isatty()
    try:
        with (
            streamed(job.archive, [job.run_id], events) as catch_up,
            stopping(job, printing.err),
            shown_live(console, quiet=quiet, plain=plain, tally=so_far(job), spend=job.spend) as see,
            closing(job.events()) as happening,
        ):
            for event in happening:
                see(event)
                catch_up()
    except (Exception, KeyboardInterrupt) as e:
        return e
    return None


def rendering(document: SearchDocument, output: Output, record: RunRecord) -> Callable[[Console], None]:
    """Return what prints a run as tables and plots."""
    from forewarp.report.run_tables import render

    return lambda console: render(document, console, record if output.verbose else None)


def ended(
    document: SearchDocument | OptimizeModelDocument,
    error: BaseException | None,
    output: Output,
    render: Callable[[Console], None],
    *,
    kept: bool,
) -> int:
    """Print what a search came to, and on stderr what ended it before its time; return the exit code."""
    if output.verbose and error is not None:
        printing.trace(error)
    output.show(document, render)
    if document.error is not None and not output.json:
        exits.tell(document.error.message, document.error.hint)
    if error is not None and not isinstance(error, KeyboardInterrupt):
        return exits.of_error(error)
    return exits.INTERRUPTED if document.status == "interrupted" else exits.OK if kept else exits.NO_KERNEL


def check(target: str | None) -> None:
    """Raise `UsageError` if events could not be written to `target`, before anything is begun."""
    if target is None or target == STDOUT:
        return
    if target.startswith("-"):
        raise UsageError(f"--events is followed by {target}", hint="name a file after it, or - for stdout")
    path = Path(target).expanduser()
    if path.is_dir():
        raise UsageError(f"--events {target} is a folder", hint=f"name a file in it, such as {path / 'events.jsonl'}")
    if not path.parent.is_dir():
        raise UsageError(
            f"--events {target}: there is no folder {path.parent}", hint=f"make it first: mkdir -p {path.parent}"
        )
    if path.exists():
        _last_number(path, "")


@contextmanager
def streamed(archive: Archive, runs: Sequence[str], target: str | None) -> Generator[Callable[[], None]]:
    """Yield what writes the events of runs since its last call as the archive has them, a line each.

    Lines hold `seq`, `time`, `type` and the event's own fields. A file continues after the last event of each run in
    it; standard output begins with what is new. What ended the runs is written at the end. Raises `UsageError` if the
    file takes no more.
    """
    if target is None:
        yield lambda: None
        return
    file = None
    if target == STDOUT:
        after = {run: max((row.seq for row in archive.events(run)), default=0) for run in runs}
    else:
        path = Path(target).expanduser()
        with _writing(target):
            after = {run: _last_number(path, run) if path.exists() else 0 for run in runs}
            file = path.open("a", encoding="utf-8")

    def catch_up() -> None:
        for run in runs:
            for row in archive.events(run, after.get(run, 0)):  # a model's search begins runs as it goes
                fields = {"seq": row.seq, "time": row.time, "type": row.type, **row.data}
                if file is None:
                    printing.json_line(fields)
                else:
                    with _writing(target):
                        file.write(json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n")
                        file.flush()
                after[run] = row.seq

    try:
        yield catch_up
    finally:
        try:
            catch_up()
        finally:
            if file is not None:
                file.close()


def _last_number(path: Path, run: str) -> int:
    """Return the number of the run's last event in the file, 0 for none; cuts off a line that a kill left half written.

    Raises `UsageError` for a file that holds something else, which must not be written to.
    """
    last = 0
    with _writing(str(path)), path.open("r+b") as file:
        whole = 0
        for line in file:
            if not line.endswith(b"\n") and line.startswith(_BEGINNING[: len(line)]):
                file.truncate(whole)
                break
            whole += len(line)
            try:
                found = json.loads(line)
                if found["run"] == run:
                    last = max(last, int(found["seq"]))
            except (ValueError, KeyError, TypeError):
                raise UsageError(f"--events {path} holds something else than events", hint="name a new file") from None
    return last


def _writing(target: str) -> AbstractContextManager[None]:
    lost = "nothing of the run is lost: `forewarp resume RUN --events FILE` goes on and adds what is missing"
    return writing(f"--events {target}", lost)
