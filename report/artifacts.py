"""The files that a run leaves behind: best kernel, its module with the evidence, result, candidates, report."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING

from forewarp.core.errors import UsageError
from forewarp.core.untrusted_text import model_json, spreadsheet_cell
from forewarp.export.bake import SUFFIXES
from forewarp.report.documents import Artifact, SearchDocument, failure
from forewarp.tools.files import write_whole
from forewarp.tools.parts import shown

if TYPE_CHECKING:
    from forewarp.tools.export import DropIn
    from forewarp.tools.run_figures import RunFigures
    from forewarp.tools.run_report import CandidateLine
    from forewarp.tools.search import SearchJob

COLUMNS = (
    *("kernel", "round", "language", "tunables", "proposer", "parent", "gate", "action", "reason"),
    *("p_valid", "p_faster", "forecast_median", "forecast_low80", "forecast_high80"),
    *("status", "verdict", "speedup", "low95", "high95", "source"),
)


def write(document: SearchDocument, folder: Path, figures: RunFigures, drop_in: DropIn | None = None) -> SearchDocument:
    """Write all files into `folder` and return the document with their paths in it; raises `UsageError`.

    Each file appears whole or not at all, and replaces one of an earlier time only once it is there.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _write(document, folder, figures, drop_in)
    except OSError as e:
        raise unwritten(folder, e, document.run_id) from None


def leave(
    job: SearchJob, command: str, error: BaseException | None, folder: Path | None
) -> tuple[SearchDocument, RunFigures]:
    """Write the files of a job that has ended; return its document, and the data of its charts.

    `error` is what ended it before its time; the folder is `forewarp-runs/RUN` where it is left out.
    """
    document = SearchDocument(command=command, error=failure(error), **dict(job.result()))
    figures = job.figures(document)
    return write(document, folder or Path("forewarp-runs") / job.run_id, figures, job.drop_in()), figures


def unwritten(folder: Path, error: OSError, run: str) -> UsageError:
    """Return the error of a folder that takes no files, of a run or a search."""
    return UsageError(
        f"{folder} cannot be written: {error.strerror}",
        hint=f"nothing is lost: `forewarp show {run} --out DIR` writes the files elsewhere",
    )


def _write(document: SearchDocument, folder: Path, figures: RunFigures, drop_in: DropIn | None) -> SearchDocument:
    from forewarp.report.html.page import page

    made: list[Artifact] = []

    def add(kind: str, name: str, text: str) -> None:
        write_whole(folder / name, text)
        made.append(Artifact.model_validate({"kind": kind, "path": str(folder / name)}))

    best = document.best
    if best is not None:
        add("kernel", f"best{SUFFIXES[best.kernel.language]}", best.source)
    if drop_in is not None:
        add("evidence", "evidence.json", model_json(drop_in.evidence, indent=2) + "\n")
        if drop_in.text is not None:
            add("module", drop_in.evidence.module or "", drop_in.text)
    lines = io.StringIO(newline="")
    table = csv.DictWriter(lines, COLUMNS)
    table.writeheader()
    for line in document.candidates:
        table.writerow({name: spreadsheet_cell(str(value)) for name, value in _row(line).items()})
    add("candidates", "candidates.csv", lines.getvalue())
    add("report", "report.html", page(document, figures))
    # The result names itself, so that one file leads to all others.
    made.append(Artifact(kind="result", path=str(folder / "result.json")))
    document = document.model_copy(update={"artifacts": made})
    write_whole(folder / "result.json", model_json(document, indent=2) + "\n")
    return document


def _row(line: CandidateLine) -> dict[str, object]:
    row: dict[str, object] = {
        "kernel": line.kernel.short,
        "round": line.round,
        "language": line.kernel.language,
        "tunables": shown(line.kernel.tunables),
        "proposer": line.proposer,
        "parent": line.parent[:10],
        "gate": line.outcome,
        "action": line.action or "",
        "reason": line.reason,
    }
    if line.forecast is not None:
        f = line.forecast
        row |= {"p_valid": f"{f.p_valid:.4f}", "p_faster": f"{f.p_faster:.4f}"}
        row |= {"forecast_median": f"{f.median.ratio:.4f}"}
        row |= {"forecast_low80": f"{f.median.low:.4f}", "forecast_high80": f"{f.median.high:.4f}"}
    if line.measured is not None:
        m = line.measured
        row |= {"status": m.status, "verdict": m.verdict, "source": m.source}
        if m.speedup is not None:
            row |= {"speedup": f"{m.speedup.ratio:.4f}"}
            row |= {"low95": f"{m.speedup.low:.4f}", "high95": f"{m.speedup.high:.4f}"}
    return row
