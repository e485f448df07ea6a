"""A suite for people: a row for each kernel, what failed and why, the shares. Fits 100 columns."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from forewarp.core.untrusted_text import first_line, one_line, printable
from forewarp.report import display
from forewarp.tools import wording
from forewarp.tools.suite_results import SuiteResult, SuiteRow, by_problem
from forewarp.tools.suite_tables import remark, said_of, score_rows

_NUMBERS = 66
"""Columns that speed-ups and verdict take."""

_SHOWN = 12
"""Files that belong to no problem, unless all are asked for."""

_NAMED = re.compile(r"^level_?\d+_(problem_)?\d+_?|_kernel$", re.IGNORECASE)


def render(result: SuiteResult, console: Console, *, full: bool = False) -> None:
    """Print the table of kernels, what went wrong, and the scores; logs too if `full`."""
    console.print(_kernels(result, console.width))
    _remarks(result, console, full=full)
    console.print(_scores(result))
    if result.statuses.keys() - {"ok"} or result.verdicts:
        console.print(_counts(result), style="dim")
    _unmatched(result, console, full=full)
    console.print(one_line(result.summary), style="bold")
    console.print(f"device: {one_line(result.device.name)}", style="dim")
    console.print(f"record and tables: {one_line(result.output)}", style="dim", soft_wrap=True)


def _kernels(result: SuiteResult, width: int) -> Table:
    compiled, several = "compile" in result.baselines, _several(result)
    room = max(20, width - (_NUMBERS if compiled else _NUMBERS - 24))
    kernels = min(room // 2, max((len(_kernel_name(row)) for row in result.rows), default=0)) if several else 0
    names = [("problem", room - kernels - 2 * several), *([("kernel", max(kernels, len("kernel")))] if several else [])]
    heads = [Column(name, no_wrap=True, overflow="ellipsis", max_width=most) for name, most in names]
    numbers = ("over eager [95 %]", *(["over torch.compile"] if compiled else []), "verdict")
    cells: list[list[str]] = []
    styles: list[str] = []
    for problem, rows in by_problem(result.rows).items():
        for index, row in enumerate(rows):
            named = [one_line(problem) if not index else "", *([_kernel_name(row)] if several else [])]
            ratios = [wording.speedup(row.eager), *([wording.speedup(row.compile)] if compiled else [])]
            cells.append([*named, *ratios, said_of(row)])
            styles.append(_colour(row))
    return display.table([*heads, *(Column(n, no_wrap=True) for n in numbers)], cells, styles=styles)


def _several(result: SuiteResult) -> bool:
    return len(result.rows) > result.problems


def _kernel_name(row: SuiteRow) -> str:
    """Return what tells a kernel from the others of its problem."""
    name = str(PurePosixPath(row.kernel).with_suffix("")) if row.kernel else ""
    stem = PurePosixPath(row.problem).name
    short = _NAMED.sub("", name.replace(f"{stem}/", "").removeprefix(stem).strip("_-."))
    return one_line(short or PurePosixPath(name).name)


def _colour(row: SuiteRow) -> str:
    if row.status == "ok":
        return display.colour(row.verdict or "")
    return "dim" if row.status in ("no_kernel", "not_measured") else "red"


def _remarks(result: SuiteResult, console: Console, *, full: bool) -> None:
    """Say of each kernel that has no time, or a doubtful one, why that is; once for a reference that fails."""
    seen: set[tuple[str, str]] = set()
    for row in result.rows:
        whose = "" if row.status == "problem_failed" else row.kernel
        if row.status in ("no_kernel", "not_measured") or (row.problem, whose) in seen:
            continue
        seen.add((row.problem, whose))
        said = remark(row)
        if said:
            name = f"{row.problem}{f' {_kernel_name(row)}' if whose and whose != 'identical' else ''}"
            console.print(Text(f"{one_line(name)}: {said_of(row)}: {said}"), style=_colour(row))
        if full and row.log:
            console.print(row.log.strip(), style="dim")
        elif row.status == "unreadable":
            console.print(Text(row.log.partition("\n")[2]))
    for compiled in result.compiled:
        if compiled.speedup is None and compiled.status not in ("problem_failed", "not_measured"):
            said = compiled.status if compiled.status != "ok" else compiled.verdict or ""
            why = first_line(printable(compiled.log))
            console.print(Text(f"{one_line(compiled.problem)} under torch.compile: {said}: {why}"), style="yellow")


def _scores(result: SuiteResult) -> Table:
    heads = ("", "correct", "against", "fast_1", "fast_1.5", "fast_2", "geometric mean")
    several = _several(result)
    rows = score_rows("best kernels" if several else "all problems", result.best)
    rows += score_rows("one at random", result.per_sample) if several else []
    return display.table(heads, rows)


def _counts(result: SuiteResult) -> str:
    """Return verdicts of what was timed and statuses of the rest, in words."""
    rest = {status.replace("_", " "): count for status, count in result.statuses.items() if status != "ok"}
    parts = [f"{count} {name}" for name, count in (result.verdicts | rest).items()]
    return f"{', '.join(parts)}; in brackets: shares by the lower end of the 95 % interval"


def _unmatched(result: SuiteResult, console: Console, *, full: bool) -> None:
    if not result.unmatched:
        return
    console.print(f"{wording.counted(len(result.unmatched), 'file')} not part of the suite:", style="yellow")
    for file in result.unmatched if full else result.unmatched[:_SHOWN]:
        console.print(Text(f"  {one_line(file.path)}: {one_line(file.reason)}"), style="yellow")
    if not full and len(result.unmatched) > _SHOWN:
        console.print(f"  and {len(result.unmatched) - _SHOWN} more; -v shows all", style="yellow")
