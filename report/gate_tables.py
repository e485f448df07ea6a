"""A gate for people, for pull requests and for CI systems. Tables fit 100 columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from xml.etree import ElementTree

from rich.console import Console
from rich.text import Text

from forewarp.core.untrusted_text import one_line, printable
from forewarp.report import display
from forewarp.tools import wording
from forewarp.tools.gate_check import GateResult, GateRow
from forewarp.tools.gate_lock import LockResult
from forewarp.tools.gate_verdicts import OPEN, WORSE
from forewarp.tools.parts import shown
from forewarp.tools.suite_tables import cell

_CHANGES = 6
"""Changes that are shown of a kernel, unless all are asked for."""


def render_lock(result: LockResult, console: Console, *, full: bool = False) -> None:
    rows = [
        (k.path, k.task, ", ".join(k.compiled), ", ".join(f"{name}: {m.speedup}" for name, m in k.measured.items()))
        for k in result.kernels
    ]
    rows = [[one_line(cell) if cell else "–" for cell in row] for row in rows]
    console.print(display.table(("kernel", "task", "compiled for", "measured on"), rows))
    for text, style in (*((n, "dim") for n in result.notes), *((p, "red") for p in result.problems)):
        console.print(Text(printable(text)), style=style)
    console.print(one_line(result.summary), style="red" if result.problems else "bold")


def render(result: GateResult, console: Console, *, full: bool = False) -> None:
    """Print a row for each kernel, then reasons and changes; logs too if `full`."""
    names = _names(result.rows)
    cells = [
        [*map(one_line, (name, row.task or "–", row.verdict, _ratios(row)))]
        for name, row in zip(names, result.rows, strict=True)
    ]
    styles = [_colour(row) for row in result.rows]
    console.print(display.table(("kernel", "task", "verdict", "slower by [95 %]"), cells, styles=styles))
    for name, row in zip(names, result.rows, strict=True):
        if row.reasons or row.changes:
            console.print(Text(one_line(f"{name}: {row.verdict}")), style=_colour(row))
        changes = row.changes if full else row.changes[:_CHANGES]
        for text, style in (*((r, _colour(row)) for r in row.reasons), *((c, "dim") for c in changes)):
            console.print(Text(f"  {one_line(text)}"), style=style)
        if len(changes) < len(row.changes):
            console.print(f"  {len(row.changes) - len(changes)} more changes; -v shows all", style="dim")
        if row.log and (full or row.verdict in ("wrong", "does not compile")):
            console.print(Text(printable(row.log).strip()), style="dim")
    console.print(one_line(result.summary), style="bold")
    console.print(Text(_conditions(result)), style="dim")


def as_markdown(result: GateResult) -> str:
    """Return a comment for a pull request."""
    bad = sum(row.verdict in WORSE for row in result.rows)
    head = f"{wording.counted(bad, 'kernel')} got worse" if bad else "no kernel got worse"
    lines = [f"### forewarp gate: {head}", "", cell(result.summary), ""]
    lines += ["| kernel | task | verdict | slower by [95 %] | why |", "|---|---|---|---|---|"]
    names = _names(result.rows)
    for name, row in zip(names, result.rows, strict=True):
        verdict = f"**{row.verdict}**" if row.verdict in WORSE else row.verdict
        cells = (cell(name), cell(row.task or "–"), verdict, cell(_ratios(row)), cell("; ".join(row.reasons)))
        lines.append(f"| {' | '.join(cells)} |")
    changed = [f"- {cell(n)}: {cell(text)}" for n, row in zip(names, result.rows, strict=True) for text in row.changes]
    if changed:
        lines += [
            "",
            f"<details><summary>{wording.counted(len(changed), 'change')}</summary>",
            "",
            *changed,
            "",
            "</details>",
        ]
    return "\n".join([*lines, "", cell(_conditions(result)), ""])


def as_junit(result: GateResult) -> str:
    """Return a test suite in JUnit's XML: a kernel that got worse failed, one that tells nothing was skipped."""
    suite = ElementTree.Element("testsuite", name="forewarp gate", tests=str(len(result.rows)), errors="0")
    for key, group in (("failures", WORSE), ("skipped", OPEN)):
        suite.set(key, str(sum(row.verdict in group for row in result.rows)))
    for name, row in zip(_names(result.rows), result.rows, strict=True):
        case = ElementTree.SubElement(suite, "testcase", classname=one_line(row.task or "no task"), name=one_line(name))
        tag = "failure" if row.verdict in WORSE else "skipped" if row.verdict in OPEN else ""
        if tag:
            message = one_line(f"{row.verdict}: {'; '.join(row.reasons)}")
            said = ElementTree.SubElement(case, tag, type=row.verdict, message=message)
            said.text = printable("\n".join((*row.reasons, *row.changes, row.log)))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _names(rows: Sequence[GateRow]) -> list[str]:
    """Return the kernels' files, with what else tells them apart where several share one."""
    names = Counter(PurePosixPath(row.path).name for row in rows)
    paths = Counter(row.path for row in rows)
    found: list[str] = []
    for row in rows:
        path = PurePosixPath(row.path)
        name = path.name if names[path.name] == 1 or paths[row.path] > 1 else str(path)
        found.append(f"{name} {shown(row.tunables)}".strip() if paths[row.path] > 1 else name)
    return found


def _ratios(row: GateRow) -> str:
    shapes = [s for s in row.shapes if s.ratio is not None]
    return ", ".join(f"{s.name} {wording.slower(s.ratio)}" for s in shapes if s.ratio is not None) or "–"


def _colour(row: GateRow) -> str:
    return "red" if row.verdict in WORSE else "yellow" if row.verdict in OPEN else "green"


def _conditions(result: GateResult) -> str:
    """Say what was compared, where, and how often it is wrong."""
    parts = ["against the lock" if result.against == "lock" else "a new environment against an old one"]
    parts += [f"on {result.device.name}" if result.device else "nothing was timed", f"threshold {result.threshold:.2g}"]
    if result.alarm_error is not None:
        parts.append(f"any false alarm over all kernels and looks: at most {result.alarm_error:.0%}")
    named = [
        " ".join(f"{k} {v[k]}" for k in ("python", "torch", "triton", "driver") if v.get(k)) for v in result.versions
    ]
    return "; ".join([*parts, *(f"{which}: {text}" for which, text in zip(("old", "new"), named, strict=False))])
