"""The files that runs leave behind: best kernel, its module with the evidence, result, candidates, HTML page."""

from __future__ import annotations

import csv
import io
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from forewarp.archive.store import LATEST, Archive
from forewarp.core.files import write_whole, writing
from forewarp.core.languages import suffix_of
from forewarp.core.untrusted_text import model_json, spreadsheet_cell
from forewarp.report.documents import Artifact, OptimizeModelDocument, SearchDocument, failure
from forewarp.tools import session
from forewarp.tools.parts import Interval, Place, shown
from forewarp.tools.run_report import CandidateLine, RunRecord, SearchResult, report
from forewarp.tools.search import SearchJob

if TYPE_CHECKING:
    from forewarp.tools.optimize_model import ModelSearch

Document = TypeVar("Document", SearchDocument, OptimizeModelDocument)

COLUMNS = (
    *("kernel", "round", "language", "tunables", "proposer", "parent", "gate", "action", "reason"),
    *("p_valid", "p_faster", "forecast_median", "forecast_low80", "forecast_high80"),
    *("status", "verdict", "speedup", "low95", "high95", "source"),
)


class _Folder:
    """A folder that files are written to; `made` names them for the document."""

    def __init__(self, path: Path) -> None:
        self.path, self.made = path, list[Artifact]()

    def add(self, kind: str, name: str, text: str) -> None:
        """Write a file, which appears whole or not at all, and replaces an earlier one only once it is there."""
        write_whole(self.path / name, text)
        self.made.append(Artifact.model_validate({"kind": kind, "path": str(self.path / name)}))


def write(document: SearchDocument, folder: Path, archive: Archive, record: RunRecord | None = None) -> SearchDocument:
    """Write all files of a run into `folder`; returns the document with their paths in it, raises `UsageError`."""
    from forewarp.report.html import run as html
    from forewarp.tools.export import drop_in

    best, module = document.best, drop_in(archive, document.run_id)
    with _writing(folder, document.run_id) as files:
        if best is not None:
            files.add("kernel", f"best{suffix_of(best.kernel.language)}", best.source)
        if module is not None:
            files.add("evidence", "evidence.json", model_json(module.evidence, indent=2) + "\n")
            if module.text is not None:
                files.add("module", module.evidence.module or "", module.text)
        files.add("candidates", "candidates.csv", _csv(document))
        record = record or RunRecord.read(archive, document.run_id)
        files.add("report", "report.html", html.page(document, record))
        return _with_result(document, files)


def leave_model(search: ModelSearch, command: str, error: BaseException | None) -> OptimizeModelDocument:
    """Write the files of each line's run, and the result; return the document of a model's search that has ended."""
    document = OptimizeModelDocument(command=command, error=failure(error), **dict(search.result()))
    with _writing(search.folder, search.run_id) as files:
        for line in document.lines:
            if line.run_id:
                one = SearchDocument(command=command, **dict(report(search.archive, line.run_id)))
                files.made += write(one, files.path / f"line{line.number}", search.archive).artifacts
        if document.applied is not None and document.applied.module:
            files.made.append(Artifact(kind="module", path=document.applied.module))
        return _with_result(document, files)


def leave(
    job: SearchJob, command: str, error: BaseException | None, folder: Path | None
) -> tuple[SearchDocument, RunRecord]:
    """Write the files of a job that has ended; return its document, and the record of its run.

    `error` is what ended it before its time; the folder is `forewarp-runs/RUN` where it is left out.
    """
    document = SearchDocument(command=command, error=failure(error), **dict(job.result()))
    record = RunRecord.read(job.archive, job.run_id)
    return write(document, folder or Path("forewarp-runs") / job.run_id, job.archive, record), record


def write_page(
    place: Place, run: str | None, out: Path | None = None, *, folder: Path | None = None
) -> tuple[Path, SearchResult]:
    """Write a run as one HTML page, also while it runs; the latest run if not named. Returns its path, and the run.

    `out` is a file that ends in .html, or a folder for report.html; left out, `forewarp-runs/RUN` below `folder`, which
    is the working folder where that is left out, too. Raises `UsageError` for an unknown run, and for a file that
    cannot be written.
    """
    from forewarp.report.html import run as html

    with session.existing_archive(place, run or "") as archive:
        found = report(archive, LATEST if run is None else run)
        text = html.page(found, RunRecord.read(archive, found.run_id))
    path = (out or (folder or Path.cwd()) / "forewarp-runs" / found.run_id).expanduser().absolute()
    path = path if path.suffix in (".html", ".htm") else path / "report.html"
    with writing(path, "pass --out FILE.html in a folder that you may write to"):
        write_whole(path, text)
    return path, found


@contextmanager
def _writing(folder: Path, run: str) -> Generator[_Folder]:
    """Make a folder for the files of a run or search; an error while writing says how to write them elsewhere."""
    folder = folder.absolute()
    with writing(folder, f"nothing is lost: `forewarp show {run} --out DIR` writes the files elsewhere"):
        folder.mkdir(parents=True, exist_ok=True)
        yield _Folder(folder)


def _with_result(document: Document, files: _Folder) -> Document:
    """Write the result, which names itself, so that one file leads to all others."""
    path = files.path / "result.json"
    document = document.model_copy(update={"artifacts": [*files.made, Artifact(kind="result", path=str(path))]})
    write_whole(path, model_json(document, indent=2) + "\n")
    return document


def _csv(document: SearchDocument) -> str:
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, COLUMNS)
    table.writeheader()
    for line in document.candidates:
        table.writerow({name: spreadsheet_cell(str(value)) for name, value in _row(line).items()})
    return text.getvalue()


def _row(line: CandidateLine) -> dict[str, object]:
    f, m = line.forecast, line.measured
    row: dict[str, object] = {
        **{name: getattr(line, name) for name in ("round", "proposer", "reason")},
        "kernel": line.kernel.short,
        "language": line.kernel.language,
        "tunables": shown(line.kernel.tunables),
        "parent": line.parent[:10],
        "gate": line.outcome,
        "action": line.action or "",
    }

    def interval(value: Interval | None, *names: str) -> dict[str, object]:
        return {} if value is None else dict(zip(names, _digits(value.ratio, value.low, value.high), strict=True))

    if f is not None:
        row |= dict(zip(("p_valid", "p_faster"), _digits(f.p_valid, f.p_faster), strict=True))
        row |= interval(f.median, "forecast_median", "forecast_low80", "forecast_high80")
    if m is not None:
        row |= {"status": m.status, "verdict": m.verdict, "source": m.source}
        row |= interval(m.speedup, "speedup", "low95", "high95")
    return row


def _digits(*values: float) -> list[str]:
    return [f"{value:.4f}" for value in values]
