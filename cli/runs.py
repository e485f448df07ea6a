"""`forewarp runs`: the latest runs of the archive."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forewarp.cli import printing
from forewarp.cli.options import PLAIN, Output, positive

if TYPE_CHECKING:
    from rich.table import Table

    from forewarp.archive.rows import RunRow
    from forewarp.report.documents import RunLine
    from forewarp.tools.run_report import Winner


def runs(
    *,
    limit: Annotated[int, Parameter(validator=positive)] = 20,
    archive: Path | None = None,
    output: Output = PLAIN,
) -> int:
    """List the latest runs, the newest first.

    Args:
        limit: How many runs to list.
        archive: Archive file; $FOREWARP_ARCHIVE, else one in your data folder.
        output: How results are shown.
    """
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.report.documents import RunLine, RunsDocument
    from forewarp.tools import session
    from forewarp.tools.parts import Device, Place
    from forewarp.tools.run_report import standing, winner

    place = Place(archive=str(archive) if archive else None)
    rows: list[tuple[RunRow, Winner | None]] = []
    where = session.archive_path(place)
    # That one's own archive is not there yet is no mistake; a path that is given is.
    if archive is not None or where.exists():
        with session.existing_archive(place) as opened:
            rows = [(r, winner(opened, r.id)) for r in opened.runs(limit=limit)]
    lines = [
        RunLine(
            run_id=r.id,
            task=r.task.name,
            device=Device.of(r.target),
            status=standing(r)[0],
            reason=standing(r)[1],
            created=r.created,
            finished=r.finished,
            best=best,
            group_id=r.settings.get("group") or None,
        )
        for r, best in rows
    ]
    summary = f"{len(lines)} run{'s' * (len(lines) != 1)} in {where}."
    if not lines:
        summary = f"No runs in {where} yet; start one with `forewarp optimize softmax`."
    if output.json:
        printing.document(RunsDocument(command="runs", status="ok", summary=summary, runs=lines))
        return exits.OK
    console = display.stdout()
    if lines:
        console.print(_table(lines, full=output.verbose))
    console.print(summary, style="dim")
    return exits.OK


def _table(lines: Sequence[RunLine], *, full: bool) -> Table:
    from rich.table import Table

    from forewarp.tools import wording

    more = ("why it ended",) if full else ()
    table = Table(
        "run", "task", "device", "best [95 %]", "verdict", "noise", "status", "started (UTC)", *more, box=None
    )
    for line in lines:
        best = line.best
        noise = "" if best is None or best.noise_percent is None else f"±{best.noise_percent:.2g} %"
        table.add_row(
            *(
                f"{line.run_id} ({line.group_id})" if line.group_id else line.run_id,
                line.task,
                line.device.name,
                wording.speedup(best.speedup if best else None),
            ),
            *(best.verdict if best else "", noise, line.status, line.created[:16].replace("T", " ")),
            *((line.reason,) if full else ()),
        )
    return table
