"""An evaluation as tables: in the terminal and as Markdown, from the same cells."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from forewarp.tools.evaluate import EvaluateResult, Figure, MeasureLine, Scores
from forewarp.tools.wording import counted

_MAIN = (
    *("exact", "within_one", "pairwise", "spearman", "error", "crps", "brier", "nll"),
    *("ece", "auroc_confidence", "sharpness", "coverage", "faster_brier", "faster_ece", "faster_auroc"),
    *("valid_brier", "valid_auroc", "share_for_all", "share_for_one", "milliseconds"),
)
_CHOICE = {
    "recovery": "recovery, median",
    "miss": "none near the best",
    "false_discard": "near the best: lost",
    "lost_wins": "wins: lost",
}
_PERCENT = ("recovery", "miss", "false", "lost", "exact", "within", "pairwise", "coverage", "share")
SHARES = ("1", "5", "10", "15", "20", "50")
OF_TASKS = (("spearman", "Spearman"), ("within_one", "±1 bin"), ("crps", "CRPS"), ("recovery_10", "recovery, top 10 %"))


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of texts. `head` names the columns, the first of which holds what a row is."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(result: EvaluateResult, *, full: bool = False) -> list[TextTable]:
    """Return the tables of an evaluation: quality, what is lost by measuring a share, and the tasks one by one.

    `full` adds the figures that say nearly the same as others.
    """
    return [
        *_quality(result, full),
        *_families(result),
        *(_choice(result, s) for s in result.forecasters),
        _tasks(result),
    ]


def markdown(result: EvaluateResult) -> str:
    parts = ["# Evaluation of forecasters", result.summary, about(result)]
    for table in tables(result, full=True):
        lines = [table.head, ("---", *("---:" for _ in table.head[1:])), *table.rows]
        parts += [f"## {table.title}", "\n".join(f"| {' | '.join(line)} |" for line in lines)]
    return "\n\n".join(parts) + "\n"


def render(result: EvaluateResult, console: Console, *, full: bool = False) -> None:
    from rich.table import Table as Shown

    for table in tables(result, full=full):
        shown = Shown(title=table.title, box=None, title_justify="left", title_style="bold")
        for place, head in enumerate(table.head):
            shown.add_column(head, justify="left" if _is_text(table, place) else "right")
        for row in table.rows:
            shown.add_row(*row)
        console.print(shown)
        console.print()
    console.print(about(result), style="dim")
    console.print(result.summary)


def _is_text(table: TextTable, place: int) -> bool:
    return place == 0 or all(row[place].isidentifier() for row in table.rows)


def about(result: EvaluateResult) -> str:
    """Say what the figures rest on."""
    said = [
        f"{counted(result.rows, 'candidate')} of {counted(result.task_count, 'task')}, {result.valid} of them valid",
        f"split: {result.split}",
        f"intervals: {result.level:.0%} over {result.resamples} resamples of the tasks".replace("%", " %"),
        f"near the best: within {result.margin * 100:g} %",
    ]
    if result.history:
        said.append(f"{result.history} measured candidates of each task were shown (seed {result.seed})")
    said += [f"left out: {number} {what}" for what, number in result.left_out.items()]
    for s in result.forecasters:
        if s.tokens:
            said.append(f"{s.name}: {s.tokens} tokens" + (f", ${s.dollars:.3f}" if s.dollars is not None else ""))
    return "; ".join(said) + "."


def cell(name: str, figure: Figure) -> str:
    if figure.value is None:
        return "–"
    value, unit = _text(name, figure.value), _unit(name)
    if figure.low is None or figure.high is None:
        return value + unit
    return f"{value}{unit} [{_text(name, figure.low)}, {_text(name, figure.high)}]"


def mark(line: MeasureLine, figure: Figure) -> str:
    """Return "better", "worse" or "" for the first of two forecasters, if the interval of the difference says so."""
    if not line.better or figure.low is None or figure.high is None or figure.low <= 0 <= figure.high:
        return ""
    return "better" if (figure.low > 0) == (line.better == "higher") else "worse"


def _unit(name: str) -> str:
    return " %" if name.startswith(_PERCENT) else ""


def _text(name: str, value: float) -> str:
    if name == "milliseconds":
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2g}" if abs(value) >= 0.001 else "0"
    return f"{100 * value:.1f}" if _unit(name) else f"{value:.3f}"


def _quality(result: EvaluateResult, full: bool) -> list[TextTable]:
    chosen = [m for m in result.measures if m.name in _MAIN or (full and not m.name.startswith(tuple(_CHOICE)))]
    if not full:
        chosen.sort(key=lambda m: _MAIN.index(m.name))
    rows = [(_title(m), *(cell(m.name, s.figures[m.name]) for s in result.forecasters)) for m in chosen]
    head = ("figure", *(s.name for s in result.forecasters))
    found = [TextTable("Quality (↑ higher is better, ↓ lower is better)", head, tuple(rows))]
    for d in result.differences:
        lines = [(_title(m), cell(m.name, d.figures[m.name]), mark(m, d.figures[m.name])) for m in chosen]
        found.append(
            TextTable(f"{d.first} − {d.second}, paired", ("figure", "difference", f"{d.first} is"), tuple(lines))
        )
    return found


def _families(result: EvaluateResult) -> list[TextTable]:
    """Return the CRPS by family of the first forecaster, and how much lower or higher it is than the others'."""
    if not result.differences:
        return []
    first = result.differences[0]
    head = ("family", "rows", f"CRPS of {first.first}", *(f"less that of {d.second}" for d in result.differences))
    rows = [
        (
            *(each[0].family, str(each[0].rows), cell("crps", Figure(value=each[0].crps))),
            *(cell("crps", f.difference) for f in each),
        )
        for each in zip(*(d.families for d in result.differences), strict=True)
    ]
    return [TextTable("By family (intervals resample programs; below zero the first is better)", head, tuple(rows))]


def _title(line: MeasureLine) -> str:
    return line.title + {"higher": " ↑", "lower": " ↓"}.get(line.better, "")


def _choice(result: EvaluateResult, scores: Scores) -> TextTable:
    kinds = [kind for kind in _CHOICE if kind != "lost_wins" or result.history]
    rows: list[tuple[str, ...]] = []
    for share in SHARES:
        names = [f"{kind}_{share}" for kind in kinds]
        cells = (cell(name, scores.figures[name]).replace(" %", "") for name in names)
        rows.append((f"top {share} %", *cells))
    titles = tuple(_CHOICE[kind] for kind in kinds)
    return TextTable(f"{scores.name}: measuring the top share only (in %)", ("measured", *titles), tuple(rows))


def _tasks(result: EvaluateResult) -> TextTable:
    head = ("task", "family", "forecaster", "rows", *(title for _, title in OF_TASKS))
    rows = [
        (t.task, t.family, s.name, str(t.rows), *(cell(name, Figure(value=t.figures[name])) for name, _ in OF_TASKS))
        for s in result.forecasters
        for t in s.tasks
    ]
    order = {s.name: place for place, s in enumerate(result.forecasters)}
    return TextTable("Task by task", head, tuple(sorted(rows, key=lambda r: (r[1], r[0], order[r[2]]))))
