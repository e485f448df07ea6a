"""`forewarp archive`: look for damage in the archive's file, and save what can be read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from forewarp.cli.options import PLAIN, Output

if TYPE_CHECKING:
    from forewarp.tools.archive_repair import ArchiveState


def check(*, archive: Path | None = None, output: Output = PLAIN) -> int:
    """Read every row of the archive and say what is damaged. Changes nothing; exit code 73 if something is.

    Args:
        archive: Archive file; $FOREWARP_ARCHIVE, else one in your data folder.
        output: How results are shown.
    """
    from forewarp.tools.archive_repair import check_archive
    from forewarp.tools.parts import Place

    return _show(check_archive(Place(archive=str(archive) if archive else None)), "archive check", output)


def repair(*, archive: Path | None = None, output: Output = PLAIN) -> int:
    """Keep what can be read of a damaged archive. The damaged file stays beside it; a sound one is left alone.

    Args:
        archive: Archive file; $FOREWARP_ARCHIVE, else one in your data folder.
        output: How results are shown.
    """
    from forewarp.tools.archive_repair import repair_archive
    from forewarp.tools.parts import Place

    return _show(repair_archive(Place(archive=str(archive) if archive else None)), "archive repair", output)


def _show(found: ArchiveState, command: str, output: Output) -> int:
    from forewarp.cli import exits, printing
    from forewarp.report import display
    from forewarp.report.documents import ArchiveDocument

    if output.json:
        made = ArchiveDocument(command=command, status="ok" if found.state != "damaged" else "error", **dict(found))
        printing.document(made)
    else:
        console = display.stdout()
        console.print(found.summary, soft_wrap=True)
        for line in found.lost:
            console.print(f"  lost: {line}", soft_wrap=True)
    return exits.NO_ARCHIVE if found.state == "damaged" else exits.OK
