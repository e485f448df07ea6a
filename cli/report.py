"""`forewarp report`: a run as one HTML page that needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forewarp.cli.options import PLAIN, Output

if TYPE_CHECKING:
    from forewarp.archive.store import Archive


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
        run: The run's id or a unique beginning of it; the latest run if left out.
        archive: Archive file; $FOREWARP_ARCHIVE, else one in your data folder.
        out: File, or folder for report.html; ./forewarp-runs/RUN/report.html if left out.
        open_: Also open the page in the browser.
        output: How results are shown.
    """
    from forewarp.cli import display, exits
    from forewarp.cli.documents import Artifact, ReportDocument
    from forewarp.cli.html_report import page
    from forewarp.tools import session
    from forewarp.tools.parts import Place
    from forewarp.tools.run_figures import figures
    from forewarp.tools.run_report import report as result_of

    place = Place(archive=str(archive) if archive else None)
    with session.existing_archive(place, run or "") as opened:
        found = result_of(opened, run if run is not None else _latest(opened))
        text = page(found, figures(opened, found))
    path = _write(text, _place(out, found.run_id))
    document = ReportDocument(
        command="report",
        status=found.status,
        reason=found.reason,
        run_id=found.run_id,
        summary=found.summary,
        path=str(path),
        bytes=path.stat().st_size,
        artifacts=[Artifact(kind="report", path=str(path))],
    )
    if output.json:
        print(document.model_dump_json())
    else:
        console = display.stdout()
        console.print(found.summary, style="bold")
        console.print(f"{path} ({document.bytes / 1e3:,.0f} kB)", soft_wrap=True)
    if open_:
        _open(path)
    return exits.OK


def _latest(archive: Archive) -> str:
    from forewarp.core.errors import UsageError

    runs = archive.runs(limit=1)
    if not runs:
        raise UsageError(
            f"there are no runs in {archive.path} yet",
            hint="start one with `forewarp optimize softmax`, or pass --archive",
        )
    return runs[0].id


def _place(out: Path | None, run_id: str) -> Path:
    if out is None:
        return Path("forewarp-runs", run_id, "report.html").absolute()
    out = out.expanduser().absolute()
    return out if out.suffix in (".html", ".htm") else out / "report.html"


def _write(text: str, path: Path) -> Path:
    from forewarp.core.errors import UsageError

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise UsageError(
            f"{path} cannot be written: {e.strerror}", hint="pass --out FILE.html in a folder that you may write to"
        ) from None
    return path


def _open(path: Path) -> None:
    """Open a page in the browser, and say so where there is none: the page was written all the same."""
    import sys
    import webbrowser

    try:
        opened = webbrowser.open(path.as_uri())
    except webbrowser.Error:
        opened = False
    if not opened:
        print(f"forewarp: no browser was found; open {path}", file=sys.stderr)
