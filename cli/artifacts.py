"""The files that a run leaves behind: best kernel, result, candidates, report."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from forewarp.cli.documents import Artifact, SearchDocument
from forewarp.core.errors import UsageError
from forewarp.tools.bake import SUFFIXES
from forewarp.tools.parts import shown

if TYPE_CHECKING:
    from forewarp.tools.run_figures import RunFigures
    from forewarp.tools.run_report import CandidateLine

COLUMNS = (
    *("kernel", "round", "language", "tunables", "proposer", "parent", "gate", "action", "reason"),
    *("p_valid", "p_faster", "forecast_median", "forecast_low80", "forecast_high80"),
    *("status", "verdict", "speedup", "low95", "high95", "source"),
)


def write(document: SearchDocument, folder: Path, figures: RunFigures) -> SearchDocument:
    """Write all files into `folder` and return the document with their paths in it; raises `UsageError`."""
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return _write(document, folder, figures)
    except OSError as e:
        raise UsageError(f"{folder} cannot be written: {e.strerror}", hint="pass --out DIR") from None


def _write(document: SearchDocument, folder: Path, figures: RunFigures) -> SearchDocument:
    from forewarp.cli.html_report import page

    made: list[Artifact] = []

    def keep(kind: str, name: str, text: str) -> None:
        (folder / name).write_text(text, encoding="utf-8")
        made.append(Artifact.model_validate({"kind": kind, "path": str(folder / name)}))

    best = document.best
    if best is not None:
        keep("kernel", f"best{SUFFIXES[best.kernel.language]}", best.source)
    with (folder / "candidates.csv").open("w", newline="", encoding="utf-8") as f:
        table = csv.DictWriter(f, COLUMNS)
        table.writeheader()
        table.writerows(_row(line) for line in document.candidates)
    made.append(Artifact(kind="candidates", path=str(folder / "candidates.csv")))
    keep("report", "report.html", page(document, figures))
    # The result names itself, so that one file leads to all others.
    made.append(Artifact(kind="result", path=str(folder / "result.json")))
    document = document.model_copy(update={"artifacts": made})
    (folder / "result.json").write_text(document.model_dump_json(indent=2) + "\n", encoding="utf-8")
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
