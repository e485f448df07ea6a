"""Writing a run as one HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forewarp.archive.store import Archive
from forewarp.core.errors import UsageError
from forewarp.tools import session
from forewarp.tools.joint_report import JointResult, joint_report
from forewarp.tools.parts import Place
from forewarp.tools.run_report import SearchResult, report
from forewarp.tools.targets import is_group


@dataclass(frozen=True, slots=True)
class WrittenPage:
    """The page of a run: where it is, and what it shows."""

    path: Path
    result: SearchResult | JointResult


def write_page(place: Place, run: str | None, out: Path | None = None, *, folder: Path | None = None) -> WrittenPage:
    """Write a run or a search for several targets as one HTML page, also while it runs; the latest run if not named.

    `out` is a file that ends in .html, or a folder for report.html; left out, `forewarp-runs/RUN` below `folder`, which
    is the working folder where that is left out, too. Raises `UsageError` for an unknown run, and for a file that
    cannot be written.
    """
    from forewarp.report.html.page import page
    from forewarp.tools.run_figures import figures

    if run is not None and is_group(run):
        from forewarp.report.html import joint

        with session.existing_archive(place, run) as opened:
            whole = joint_report(opened, run)
        return WrittenPage(_write(joint.page(whole, {}), _file(out, whole.group_id, folder or Path.cwd())), whole)
    with session.existing_archive(place, run or "") as opened:
        found = report(opened, run if run is not None else _latest(opened))
        text = page(found, figures(opened, found))
    return WrittenPage(_write(text, _file(out, found.run_id, folder or Path.cwd())), found)


def _latest(archive: Archive) -> str:
    runs = archive.runs(limit=1)
    if not runs:
        raise UsageError(
            f"there are no runs in {archive.path} yet",
            hint="start one with `forewarp optimize softmax`, or pass --archive",
        )
    return runs[0].id


def _file(out: Path | None, run_id: str, folder: Path) -> Path:
    if out is None:
        return (folder / "forewarp-runs" / run_id / "report.html").absolute()
    out = out.expanduser().absolute()
    return out if out.suffix in (".html", ".htm") else out / "report.html"


def _write(text: str, path: Path) -> Path:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as e:
        raise UsageError(
            f"{path} cannot be written: {e.strerror}", hint="pass --out FILE.html in a folder that you may write to"
        ) from None
    return path
