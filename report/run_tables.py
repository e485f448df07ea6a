"""A run for people: the winner, its shapes, the candidates, two plots, and where the files are."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from forewarp.report import display, plots
from forewarp.report.documents import SearchDocument
from forewarp.report.measure_tables import shapes, state_lines
from forewarp.tools import wording
from forewarp.tools.calibration import CalibrationScores
from forewarp.tools.parts import shown
from forewarp.tools.run_report import BestKernel, CandidateLine, RunRecord, oracles, usable

ROWS = 12
_HOLDS = {"yes": "green", "no": "red", "partly": "yellow"}


def render(document: SearchDocument, console: Console, record: RunRecord | None = None) -> None:
    """Print a run: its best candidates; with a `record` of it all of them, and how forecasts came true."""
    if document.candidates:
        console.print(_candidates(document.candidates, None if record else ROWS))
    for plot in plots.of_run(document.candidates):
        console.print(plot)
    if document.best is not None:
        console.print(_best(document.best))
        for flag in document.best.flags:
            console.print(f"against it: {flag}", style="magenta")
        for line in state_lines(document.best.workloads, document.best.device_state):
            console.print(line, style="dim")
    console.print(document.summary, style="bold")
    console.print(_counts(document))
    if document.tiers:
        console.print(oracles(document))
    if document.account is not None:
        console.print(document.account.said)
    if record is not None:
        from forewarp.tools.calibration import scores_of_run

        for name, scores in scores_of_run(record.run.task.name, record.candidates).items():
            console.print(came_true(name, scores), style="dim")
    if document.audit is not None:
        a = document.audit
        console.print(
            f"false discards: {a.false} of {a.audited} audited of {a.discarded} discarded:"
            f" {a.share.ratio:.0%} [{a.share.low:.0%}, {a.share.high:.0%}] (95 %)"
        )
    if document.holdout is not None:
        console.print(f"other shapes: {document.holdout.said}", style=_HOLDS.get(document.holdout.generalises, "dim"))
    if document.alarms:
        times = "once" if document.alarms == 1 else f"{document.alarms} times"
        console.print(
            f"alarms: outcomes did not fit the forecasts {times}; all was measured for a while", style="yellow"
        )
    console.print(f"run {document.run_id} {document.status}: {document.reason}", style=display.colour(document.status))
    for artifact in document.artifacts:
        console.print(f"{artifact.kind:>10}  {artifact.path}", soft_wrap=True)


def came_true(forecaster: str, s: CalibrationScores) -> str:
    """Return in one line how a forecaster's forecasts in the run came true."""
    outcomes = sum(p.count for p in s.faster)
    named = (("ECE", s.ece), ("Brier", s.brier), ("CRPS", s.crps))
    scores = [f"{name} {value:.3f}" for name, value in named if value is not None]
    covered = [] if s.coverage is None else [f"{s.coverage:.0%} in 80 % intervals"]
    return f"forecasts of {forecaster}, {outcomes} measured after: {', '.join([*scores, *covered])}"


def ranked(lines: Sequence[CandidateLine]) -> list[CandidateLine]:
    def rank(line: CandidateLine) -> tuple[int, float]:
        found = usable(line.measured)
        if found is not None:
            return 0, -found.ratio
        promise = line.forecast.p_faster if line.forecast else -1.0
        return (1 if line.measured else 2), -promise

    return sorted(lines, key=rank)


def _candidates(lines: Sequence[CandidateLine], limit: int | None) -> Table:
    ordered = ranked(lines)
    chosen = ordered if limit is None else ordered[:limit]
    title = f"{len(chosen)} of {len(lines)} candidates, the fastest first"
    table = Table(
        *("kernel", "tunables", "forecast [80 %]", "p(correct)", "measured [95 %]", "came to"),
        box=None,
        title=title,
        title_justify="left",
    )
    for line in chosen:
        f, m = line.forecast, line.measured
        came_to = (m.verdict if m.status == "ok" else m.status) if m else (line.action or line.outcome)
        table.add_row(
            line.kernel.short,
            shown(line.kernel.tunables) or line.note[:60],
            wording.speedup(f.median) if f else "–",
            wording.chance(f.p_valid) if f else "–",
            wording.speedup(m.speedup) + (" replay" if m.source == "replay" else "") if m else "–",
            came_to,
            style=display.colour(came_to) if m else "dim",
        )
    return table


def _best(best: BestKernel) -> Table:
    table = shapes(best.workloads)
    table.title = f"best: {best.kernel.short} ({best.kernel.language}) {shown(best.kernel.tunables)}"
    table.title_justify = "left"
    return table


def _counts(document: SearchDocument) -> str:
    c = document.counts
    parts = [f"{c.proposed} proposed", *(f"{n} {name}" for name, n in c.rejected.items())]
    again = f" and {c.measured_again} again" if c.measured_again else ""
    parts += [f"{c.considered} considered", f"{c.measured} measured{again}"]
    parts += [f"{n} {name}" for name, n in c.failures.items()]
    spent = wording.amounts(document.budget.spent, document.budget.limit)
    return f"{', '.join(parts)} · spent {spent}"
