"""`forewarp runs`: the latest runs of the archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from forewarp.cli.options import PLAIN, Output, Positive


def runs(
    *,
    limit: Annotated[int, Parameter(validator=Positive)] = 20,
    archive: Path | None = None,
    output: Output = PLAIN,
) -> int:
    """List the latest runs, the newest first.

    Args:
        limit: How many runs to list.
        archive: Archive file; $FOREWARP_ARCHIVE, else one in your data folder.
        output: How results are shown.
    """
    from forewarp.cli import display, exits
    from forewarp.cli.documents import RunLine, RunsDocument
    from forewarp.tools import session
    from forewarp.tools.parts import Device, Place

    with session.open_archive(Place(archive=str(archive) if archive else None)) as opened:
        rows = opened.runs(limit=limit)
        where = opened.path
    lines = [
        RunLine(
            run_id=r.id,
            task=r.task.name,
            device=Device.of(r.target),
            status=r.status,
            reason=r.reason,
            created=r.created,
            finished=r.finished,
        )
        for r in rows
    ]
    summary = f"{len(lines)} runs in {where}."
    if not lines:
        summary = f"No runs in {where} yet; start one with `forewarp optimize softmax`."
    if output.json:
        print(RunsDocument(command="runs", status="ok", summary=summary, runs=lines).model_dump_json())
        return exits.OK
    from rich.table import Table

    console = display.stdout()
    if lines:
        table = Table("run", "task", "device", "status", "started (UTC)", "why it ended", box=None)
        for line in lines:
            started = line.created[:16].replace("T", " ")
            table.add_row(line.run_id, line.task, line.device.name, line.status, started, line.reason)
        console.print(table)
    console.print(summary, style="dim")
    return exits.OK
