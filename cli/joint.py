"""A search for several targets from the command line: its view, its files, its result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from forewarp.cli import exits, printing, running, stream
from forewarp.cli.options import Output
from forewarp.report import artifacts, display
from forewarp.report.documents import JointDocument, JointEstimateDocument
from forewarp.report.progress import drawable, redrawn, sparkline
from forewarp.report.tally import Tally, so_far
from forewarp.tools import wording
from forewarp.tools.signals import stopping

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from forewarp.search.events import Event
    from forewarp.tools.estimate import Estimate
    from forewarp.tools.joint_search import JointJob

_CURVE = 24
"""Columns that the best so far takes in the live view."""
_TUNABLES = 24


def drive(job: JointJob, command: str, *, out: Path | None, output: Output, events: str | None = None) -> int:
    """Do the work of all runs, write their files, print the result and return the exit code."""
    if events == stream.STDOUT:
        output = replace(output, json=True)
    error = _work(job, output, events)
    if output.verbose and error is not None:
        printing.trace(error)
    failures = [error] if error is not None else list(job.errors.values())
    document = artifacts.joint_document(job.result(), command, failures[0] if failures else None)
    document = artifacts.write_joint(document, job.archive, out or Path("forewarp-runs") / job.group)
    show(document, output)
    if failures and not isinstance(failures[0], KeyboardInterrupt):
        return exits.of_error(failures[0])
    if document.status in ("interrupted", "running"):  # a thread that did not end in time is still running
        return exits.INTERRUPTED
    return exits.OK if any(k.won for k in document.kernels) else exits.NO_KERNEL


def foresee(found: list[Estimate], output: Output) -> int:
    """Print what the runs will probably take; nothing else happens."""
    if not output.json:
        for one in found:
            running.foresee(one, output)
        return exits.OK
    summary = " ".join(one.summary for one in found)
    printing.document(JointEstimateDocument(command="optimize", status="estimated", summary=summary, runs=found))
    return exits.OK


def show(document: JointDocument, output: Output) -> None:
    """Print the search: the document with --json, tables without."""
    if output.json:
        printing.document(document)
        return
    console = display.stdout()
    if document.kernels:
        console.print(_kernels(document))
    console.print(_runs(document))
    console.print(document.summary, style="bold")
    console.print(
        f"search {document.group_id} {document.status}: {document.reason}", style=display.colour(document.status)
    )
    for artifact in document.artifacts:
        console.print(f"{artifact.kind:>10}  {artifact.path}", soft_wrap=True)
    running.complain(document.error)


def _kernels(document: JointDocument) -> Table:
    from rich.table import Column, Table

    from forewarp.tools.joint_report import differing

    devices = [r.device.name for r in document.runs]
    title = "kernels over all targets: speed-up over the reference on the same device [95 %], * wins there"
    table = Table(
        *(Column(name, no_wrap=name == "kernel") for name in ("kernel", *devices, "geometric mean", "least")),
        Column("tunables that differ", no_wrap=True, overflow="ellipsis", max_width=_TUNABLES),
        box=None,
        title=title,
        title_justify="left",
    )
    for k, differ in zip(document.kernels, differing(document.kernels), strict=True):
        cells = [
            f"{wording.speedup(t.speedup) if t.speedup else t.outcome}{' *' if t.device in k.won else ''}"
            for t in k.targets
        ]
        best = document.compromise is not None and k.kernel.sha256 == document.compromise.kernel.sha256
        table.add_row(
            k.kernel.short,
            *cells,
            wording.speedup(k.mean) if k.mean else "–",
            f"{k.worst:.3g}×" if k.worst is not None else "–",
            differ,
            style="green" if best else "",
        )
    return table


def _runs(document: JointDocument) -> Table:
    from rich.table import Table

    table = Table("run", "target", "proposed", "considered", "measured", "spent", "status", box=None)
    for r in document.runs:
        c = r.counts
        table.add_row(
            *(r.run_id, r.device.name, f"{c.proposed}", f"{c.considered}", f"{c.measured}"),
            *(wording.amounts(r.budget.spent, r.budget.limit), r.status),
        )
    return table


def _work(job: JointJob, output: Output, events: str | None) -> BaseException | None:
    """Do the work with a view of it on stderr; returns what ended it before its time."""
    console = display.stderr()
    quiet = output.quiet or (output.json and not console.is_terminal)
    for one in job.jobs:
        if one.estimate is not None and not output.quiet:
            console.print(f"{one.estimate.device.name}:", soft_wrap=True)
            running.announce(one.estimate, console)
    tallies = {one.run_id: so_far(one) for one in job.jobs}
    try:
        with ExitStack() as stack:
            # Of a run that was finished before, a kill may have kept the last events from the file.
            runs = [row.id for row in job.archive.group(job.group)]
            lines = [stack.enter_context(stream.streamed(job.archive, run, events)) for run in runs]
            stack.enter_context(stopping(job, printing.err))
            see = stack.enter_context(_shown(console, tallies, quiet=quiet, plain=stream.on_terminal(events)))
            try:
                with closing(job.events()) as happening:
                    for event in happening:
                        see(event)
                        for line in lines:
                            if line is not None:
                                line.catch_up()
            finally:
                for line in lines:
                    if line is not None:
                        line.catch_up()
    except (Exception, KeyboardInterrupt) as e:
        return e
    return None


@contextmanager
def _shown(
    console: Console, tallies: Mapping[str, Tally], *, quiet: bool, plain: bool
) -> Generator[Callable[[Event], None]]:
    """Show the runs while they go: a row each on a terminal, a line per measurement elsewhere."""
    live = drawable(console, plain=plain)

    def see(event: Event) -> None:
        tally = tallies[event.run]
        line = tally.see(event)
        if line and not live and not quiet:
            console.print(f"{_target(tally)}: {line}", soft_wrap=True)

    if quiet or not live:
        yield see
        return
    with redrawn(console, lambda: overview(tallies)):
        yield see


def overview(tallies: Mapping[str, Tally]) -> Table:
    """Return the live view: where each target stands."""
    from rich.table import Table

    table = Table("target", "best [95 %]", "best so far", "measured", "now", box=None, expand=True)
    for tally in tallies.values():
        share = tally.share()
        room = round(share * _CURVE)
        table.add_row(
            _target(tally),
            wording.speedup(tally.best),
            sparkline(tally.curve, room, share) + "·" * (_CURVE - room),
            tally.meter(),
            tally.doing(),
        )
    return table


def _target(tally: Tally) -> str:
    return tally.title.partition(" on ")[2].partition(" · ")[0] or tally.run or "starting"
