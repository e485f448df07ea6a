"""`forewarp report`: a run as one HTML page that needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from forewarp.cli import printing
from forewarp.cli.options import PLAIN, Output


def report(
    run: str | None = None,
    /,
    *,
    archive: Path | None = None,
    out: Path | None = None,
    open_: Annotated[bool, Parameter(name="--open", negative="", show_default=False)] = False,
    output: Output = PLAIN,
) -> int:
    """Write a run as one HTML page, also while it runs or after it was killed.

    Args:
        run: The run's id or a unique beginning of it, or that of a search for several targets; the latest run if
            left out.
        archive: Archive file; $FOREWARP_ARCHIVE, else one in your data folder.
        out: File, or folder for report.html; ./forewarp-runs/RUN/report.html if left out.
        open_: Also open the page in the browser.
        output: How results are shown.
    """
    from forewarp.cli import exits
    from forewarp.report import display
    from forewarp.report.artifacts import write_page
    from forewarp.report.documents import Artifact, ReportDocument
    from forewarp.tools.joint_report import JointResult
    from forewarp.tools.parts import Place

    written = write_page(Place(archive=str(archive) if archive else None), run, out)
    found, path = written.result, written.path
    document = ReportDocument(
        command="report",
        status=found.status,
        reason=found.reason,
        run_id=None if isinstance(found, JointResult) else found.run_id,
        summary=found.summary,
        path=str(path),
        bytes=path.stat().st_size,
        artifacts=[Artifact(kind="report", path=str(path))],
    )
    if output.json:
        printing.document(document)
    else:
        console = display.stdout()
        console.print(found.summary, style="bold")
        console.print(f"{path} ({document.bytes / 1e3:,.0f} kB)", soft_wrap=True)
    if open_:
        _open(path)
    return exits.OK


def _open(path: Path) -> None:
    """Open a page in the browser, and say so where there is none: the page was written all the same."""
    import webbrowser

    try:
        opened = webbrowser.open(path.as_uri())
    except webbrowser.Error:
        opened = False
    if not opened:
        printing.err(f"forewarp: no browser was found; open {path}")
