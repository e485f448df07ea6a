"""The result of a suite as files: Markdown for reports, and JSON."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from forewarp.core.files import write_whole, writing
from forewarp.core.untrusted_text import first_error, model_json, one_line, printable
from forewarp.tools import wording
from forewarp.tools.suite_results import Baseline, SuiteResult, SuiteRow, SuiteScores

_UNLINKED = {ord(mark): f"{mark}<!-- -->" for mark in "@#"}
TITLES: dict[Baseline, str] = {"eager": "eager", "compile": "torch.compile"}


def write(result: SuiteResult, folder: Path) -> None:
    """Write `result.json` and `table.md` into a folder; raises `UsageError`."""
    keep(folder / "result.json", model_json(result, indent=2) + "\n")
    keep(folder / "table.md", as_markdown(result))


def keep(path: Path, text: str) -> None:
    """Write a file whole or not at all; raises `UsageError`."""
    with writing(path, "choose another place"):
        write_whole(path, text)


def as_markdown(result: SuiteResult) -> str:
    compiled = "compile" in result.baselines
    parts = [f"# {cell(Path(result.output).name)}", cell(result.summary), cell(f"Device: {result.device.name}")]
    scores = [["", "correct", "against", "fast_1", "fast_1.5", "fast_2", "geometric mean"], ["---"] * 7]
    scores += score_rows("best kernel of each problem", result.best)
    scores += score_rows("one kernel at random", result.per_sample)
    head = ["problem", "kernel", "over eager [95 %]", *(["over torch.compile [95 %]"] if compiled else []), "verdict"]
    rows = [[*head, "remark"], ["---"] * (len(head) + 1)]
    for row in result.rows:
        ratios = [wording.speedup(row.eager), *([wording.speedup(row.compile)] if compiled else [])]
        rows.append([row.problem, row.kernel, *ratios, said_of(row), remark(row)])
    for table in (scores, rows):
        parts.append("\n".join(f"| {' | '.join(cell(c) for c in r)} |" for r in table))
    if result.unmatched:
        parts.append("Not part of the suite:")
        parts.append("\n".join(f"- {cell(u.path)}: {cell(u.reason)}" for u in result.unmatched))
    return "\n\n".join(parts) + "\n"


def score_rows(title: str, view: SuiteScores) -> list[list[str]]:
    """Return one row for each baseline: shares by point estimate, in brackets by the lower end of the interval."""
    return [
        [
            title if not i else "",
            f"{view.correct:.2f}" if not i else "",
            TITLES[score.baseline],
            *(f"{shares.point:.2f} ({shares.certain:.2f})" for shares in score.fast().values()),
            f"{score.geomean:.3g}× of {score.timed}" if score.geomean else "–",
        ]
        for i, score in enumerate(view.scores)
    ]


def said_of(row: SuiteRow) -> str:
    if row.status != "ok" or not row.verdict:
        return row.status.replace("_", " ")
    doubted = row.verdict in ("faster", "tie", "slower") and not row.trusted
    return f"{row.verdict}, untrusted" if doubted else row.verdict


def remark(row: SuiteRow) -> str:
    """Return in a line what speaks against a time, or why there is none."""
    return "; ".join(row.flags) if row.status == "ok" else first_error(printable(row.log))


def cell(text: str) -> str:
    """Return text for a Markdown table, all of which is shown as it is; it mentions nobody and links no issue."""
    return re.sub(r"[\\|`*_\[~$]", r"\\\g<0>", escape(one_line(text), quote=False)).translate(_UNLINKED)
