"""The tree of candidates: who was made from whom, coloured by what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from forewarp.report.html.markup import kind_of, legend, meaning
from forewarp.tools.parts import shown
from forewarp.tools.wording import counted

if TYPE_CHECKING:
    from forewarp.tools.run_lineage import Lineage, LineageNode

STEP, ROW, LEFT, TOP = 24, 21, 14, 16
BESIDE = 11
"""Pixels from a candidate's dot to its label."""

LETTER = 7.0
"""Pixels that a letter of a label takes on average, at most."""

Places = Mapping[str, tuple[int, int]]


def tree(found: Lineage) -> str:
    """Return the tree, a row for each candidate; "" where nothing was measured.

    A line leaves its parent downwards and turns right at the child's row. In between stand descendants only, further to
    the right, so that no line crosses a label.
    """
    if not found.nodes:
        return ""
    places = _places(found)
    ends = [_at(places[n.kernel.sha256])[0] + BESIDE + LETTER * sum(map(len, _label(n))) for n in found.nodes]
    width, height = round(max(ends)) + LEFT, 2 * TOP + ROW * (len(found.nodes) - 1)
    # The winner's line lies over those that leave the same parents.
    edges = sorted((drawn for n in found.nodes if (drawn := _edge(n, places))), key=lambda e: "won" in e)
    drawn = [*edges, *(_node(n, places) for n in found.nodes)]
    title = f"Lineage of {counted(len(found.nodes), 'candidate')}, children below their parents and to the right"
    svg = (
        f'<svg class="free" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title)}">{"".join(drawn)}</svg>'
    )
    return f'<div class="wide tall">{svg}</div>{legend([n.fate for n in found.nodes])}{_note(found)}'


def lead(found: Lineage) -> str:
    """Return what the tree shows."""
    winning = [n for n in found.nodes if n.winning]
    said = "Candidates that were measured and their ancestors; a blue ring marks those that became the best so far."
    if len(winning) > 1:
        said += f" The thick blue line leads to the winner through {counted(len(winning) - 1, 'ancestor')}."
    elif winning and len(found.nodes) > 1:
        said += " The winner was made from no other candidate."
    if any(n.mate for n in found.nodes):
        said += " “With” names the second parent of a cross."
    return said


def _places(found: Lineage) -> dict[str, tuple[int, int]]:
    """Return (generation, row) of each candidate: below its parent and what came of the siblings before it."""
    children: dict[str, list[str]] = {}
    # The winner's line comes first, so that it stays on top.
    for n in sorted(found.nodes, key=lambda n: not n.winning):
        children.setdefault(n.parent, []).append(n.kernel.sha256)
    places: dict[str, tuple[int, int]] = {}
    # Depth first without recursion: a chain of repairs may be longer than Python's stack.
    left = [(kernel, 0) for kernel in reversed(children.get("", []))]
    while left:
        kernel, depth = left.pop()
        places[kernel] = (depth, len(places))
        left += [(child, depth + 1) for child in reversed(children.get(kernel, []))]
    return places


def _at(place: tuple[int, int]) -> tuple[int, int]:
    return LEFT + STEP * place[0], TOP + ROW * place[1]


def _edge(n: LineageNode, places: Places) -> str:
    if not n.parent:
        return ""
    (x, y), (above_x, above_y) = _at(places[n.kernel.sha256]), _at(places[n.parent])
    return f'<path class="edge{" won" if n.winning else ""}" d="M{above_x} {above_y}V{y - 6}q0 6 6 6H{x}"/>'


def _label(n: LineageNode) -> tuple[str, str]:
    """Return what came out, and in fewer colours which candidate it is and what it was crossed with."""
    hidden = sum(n.hidden.values())
    said = f"{n.speedup.ratio:.3g}×" if n.speedup else "" if _open(n) else n.fate.replace("_", " ")
    mate, more = f" with {n.mate[:4]}" if n.mate else "", f" +{hidden}" if hidden else ""
    return said, f" {n.kernel.short[:4]}{mate}{more}"


def _open(n: LineageNode) -> bool:
    return n.fate in ("unmeasured", "unfinished")


def _node(n: LineageNode, places: Places) -> str:
    x, y = _at(places[n.kernel.sha256])
    kind, shape = kind_of(n.fate), "hollow" if _open(n) else "dot"
    ring = f'<circle class="hollow best" cx="{x}" cy="{y}" r="7.5"/>' if n.leads else ""
    said, named = map(escape, _label(n))
    return (
        f'{ring}<circle class="{shape} {kind}" cx="{x}" cy="{y}" r="4.5"><title>{escape(_told(n))}</title></circle>'
        f'<text x="{x + BESIDE}" y="{y + 4}">{said}<tspan class="soft">{named}</tspan></text>'
    )


def _told(n: LineageNode) -> str:
    how = f"{n.operator or n.note} by {n.proposer}" if n.operator or n.note else f"by {n.proposer}"
    lines = [f"{n.kernel.short}, {how}, round {n.round}"]
    if n.kernel.tunables:
        lines.append(shown(n.kernel.tunables))
    if n.mate:
        lines.append(f"crossed with {n.mate[:10]}")
    if n.forecast:
        lines.append(f"forecast {n.forecast}")
    lines.append(f"{n.speedup or ''} {meaning(n.fate)}".strip())
    if n.outside:
        lines.append("made from a candidate of another run")
    if n.hidden:
        lines.append(f"{_counts(n.hidden)} made from it, not shown")
    return "\n".join(lines)


def _note(found: Lineage) -> str:
    below = sum(sum(n.hidden.values()) for n in found.nodes)
    parts: list[str] = []
    if below:
        parts.append(f"+N: so many candidates were made from this one and are not shown, {below:,} in all")
    if found.left_out:
        parts.append(f"without a place in the tree: {_counts(found.left_out)}")
    return f'<p class="soft">{escape("; ".join(parts))}.</p>' if parts else ""


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in sorted(counts.items(), key=lambda c: -c[1]))
