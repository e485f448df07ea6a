"""The files that a search for several targets leaves behind: those of each run, and those of the whole beside them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from forewarp.core.untrusted_text import model_json
from forewarp.export.bake import SUFFIXES
from forewarp.report import artifacts
from forewarp.report.documents import Artifact, JointDocument, SearchDocument, failure
from forewarp.tools.files import write_whole

if TYPE_CHECKING:
    from forewarp.archive.store import Archive
    from forewarp.tools.joint_report import JointResult


def document_of(result: JointResult, command: str, error: BaseException | None = None) -> JointDocument:
    """Return what `--json` prints."""
    return JointDocument(command=command, error=failure(error), **dict(result))


def write(document: JointDocument, archive: Archive, folder: Path) -> JointDocument:
    """Write the files of each run into a folder of its target, those of the whole beside them; raises `UsageError`."""
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _write(document, archive, folder)
    except OSError as e:
        raise artifacts.unwritten(folder, e, document.group_id) from None


def _write(document: JointDocument, archive: Archive, folder: Path) -> JointDocument:
    from forewarp.report.html.joint import page
    from forewarp.tools.export import drop_in
    from forewarp.tools.run_figures import figures

    made: list[Artifact] = []
    pages: dict[str, str] = {}
    for run in document.runs:
        name = slug(run.device.name)
        one = SearchDocument(command=document.command, **dict(run))
        made += artifacts.write(one, folder / name, figures(archive, one), drop_in(archive, run.run_id)).artifacts
        pages[run.device.name] = f"{name}/report.html"
    if document.compromise is not None:
        kernel = folder / f"compromise{SUFFIXES[document.compromise.kernel.language]}"
        write_whole(kernel, document.compromise.source)
        made.append(Artifact(kind="kernel", path=str(kernel)))
    report, result = folder / "report.html", folder / "result.json"
    write_whole(report, page(document, pages))
    made += [Artifact(kind="report", path=str(report)), Artifact(kind="result", path=str(result))]
    document = document.model_copy(update={"artifacts": made})
    write_whole(result, model_json(document, indent=2) + "\n")
    return document


def slug(device: str) -> str:
    """Return a device's name as that of a folder."""
    return "-".join("".join(c if c.isalnum() else " " for c in device.lower()).split())
