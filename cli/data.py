"""`forewarp data` and `forewarp archive`: the archive as a pool, and damage of the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cyclopts import Parameter
from rich.console import Console

from forewarp.cli import exits
from forewarp.cli.flags import takes
from forewarp.cli.options import PLAIN, ArchiveOption, Output
from forewarp.tools.parts import Place
from forewarp.tools.requests import ExportRequest

if TYPE_CHECKING:
    from forewarp.tools.archive_repair import ArchiveState


@takes(ExportRequest, "pools", families=Parameter(name="--family"))
def export(request: ExportRequest, *, output: Output = PLAIN) -> int:
    """Write the archive's measurements, or those of other pools, as one pool; refuses splits that share a kernel."""
    from forewarp.tools.data import export_data

    result = export_data(request)
    summary = f"Exported {result.rows} rows to {result.files[0]}."

    def render(_: object, console: Console, *, full: bool) -> None:
        console.print(summary, style="dim")

    output.tell(result, "data", render, summary=summary)
    return exits.OK


def check_archive(*, archive: ArchiveOption = None, output: Output = PLAIN) -> int:
    """Read every row of the archive and say what is damaged. Changes nothing; exit code 73 if something is."""
    from forewarp.tools import archive_repair

    found = archive_repair.check_archive(Place(archive=archive and str(archive)))
    return _show_archive(found, "archive check", output)


def repair_archive(*, archive: ArchiveOption = None, output: Output = PLAIN) -> int:
    """Keep what can be read of a damaged archive. The damaged file stays beside it; a sound one is left alone."""
    from forewarp.tools import archive_repair

    found = archive_repair.repair_archive(Place(archive=archive and str(archive)))
    return _show_archive(found, "archive repair", output)


def _show_archive(found: ArchiveState, command: str, output: Output) -> int:
    def render(found: ArchiveState, console: Console, *, full: bool) -> None:
        console.print(found.summary, soft_wrap=True)
        for line in found.lost:
            console.print(f"  lost: {line}", soft_wrap=True)

    damaged = found.state == "damaged"
    output.tell(found, command, render, status="error" if damaged else "ok")
    return exits.NO_ARCHIVE if damaged else exits.OK
