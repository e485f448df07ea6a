"""HTML of the changes that the winner and each improvement made."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from forewarp.report.html.markup import Cell, number, table
from forewarp.tools import wording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forewarp.tools.run_lineage import Change

OPEN = 2
"""Most changes that are shown unfolded: those of the winner."""


def changes(found: Sequence[Change]) -> str:
    """Return every change under a line with its gain; "" where there is none."""
    return "".join(_change(c, unfolded=place < OPEN and c.what != "improvement") for place, c in enumerate(found))


def _change(c: Change, *, unfolded: bool) -> str:
    gained = " → ".join(wording.speedup(i) for i in (c.before, c.after) if i)
    how = c.operator or c.note
    by = f", {how[:80]} by {c.proposer}" if how else f", by {c.proposer}"
    title = {
        "winner against its parent": f"The winner {c.kernel.short} against its parent {c.base.short}",
        "winner against the seed": f"The winner {c.kernel.short} against the seed {c.base.short}",
        "improvement": f"{c.kernel.short} against {c.relation}, {c.base.short}",
    }[c.what]
    body = _tunables(c) + _diff(c)
    if not body:
        body = "<p>Equal text and tunables.</p>"
    return (
        f"<details{' open' if unfolded else ''}><summary><b>{escape(title)}</b> "
        f'<span class="soft">{escape(gained + by)}</span></summary>{body}</details>'
    )


def _tunables(c: Change) -> str:
    rows = [(Cell(t.name), number(t.before, "d"), number(t.after, "d")) for t in c.tunables]
    if not rows:
        return ""
    said = "<p>Only tunables differ; the text is the same.</p>" if not c.diff else ""
    return said + table(("tunable", "before", "after"), rows)


def _diff(c: Change) -> str:
    if not c.diff:
        return ""
    drawn: list[str] = []
    for line in c.diff:
        kind = "h" if line.startswith(("---", "+++", "@@")) else {"+": "a", "-": "d"}.get(line[:1], "")
        text = escape(line, quote=False)
        drawn.append(f'<span class="{kind}">{text}</span>' if kind else f"{text}\n")
    if c.lines_left_out:
        drawn.append(f'<span class="h">… {c.lines_left_out} more lines of the difference are left out</span>')
    return f"<pre>{''.join(drawn)}</pre>"
