"""The tree of candidates: who was made from whom, coloured by what became of them."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from forewarp.tools.html.markup import counted, kind_of, legend, meaning
from forewarp.tools.parts import shown

if TYPE_CHECKING:
    from forewarp.tools.run_lineage import Lineage, Node

STEP, ROW, LEFT, TOP, LABEL = 124, 21, 14, 16, 190

Places = Mapping[str, tuple[int, int]]


def tree(found: Lineage) -> str:
    """Return the tree; "" where nothing was measured."""
    if not found.nodes:
        return ""
    places = _places(found)
    width = LEFT + STEP * max(depth for depth, _ in places.values()) + LABEL
    height = 2 * TOP + ROW * max(row for _, row in places.values())
    nodes = {n.kernel.sha256: n for n in found.nodes}
    drawn = [_edges(n, nodes, places) for n in found.nodes] + [_node(n, places) for n in found.nodes]
    title = f"Lineage of {counted(len(found.nodes), 'candidate')}, from parents on the left to children on the right"
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
        said += " Dashed lines lead from the second parent of a cross."
    return said


def _places(found: Lineage) -> dict[str, tuple[int, int]]:
    """Return (generation, row) of each candidate: a leaf takes the next row, a parent that of its first child."""
    children: dict[str, list[str]] = {}
    for n in found.nodes:
        children.setdefault(n.parent, []).append(n.kernel.sha256)
    winning = {n.kernel.sha256 for n in found.nodes if n.winning}
    places: dict[str, tuple[int, int]] = {}
    row = 0
    # Depth first without recursion: a chain of repairs may be longer than Python's stack.
    left = [(kernel, 0, True) for kernel in reversed(_ordered(children.get("", []), winning))]
    while left:
        kernel, depth, first = left.pop()
        row += not first
        places[kernel] = (depth, row)
        below = _ordered(children.get(kernel, []), winning)
        left += [(child, depth + 1, k == 0) for k, child in reversed(list(enumerate(below)))]
        if left and left[-1][1] == 0:
            left[-1] = (*left[-1][:2], False)
    return places


def _ordered(kernels: list[str], winning: set[str]) -> list[str]:
    return sorted(kernels, key=lambda k: k not in winning)


def _at(place: tuple[int, int]) -> tuple[int, int]:
    return LEFT + STEP * place[0], TOP + ROW * place[1]


def _edges(n: Node, nodes: Mapping[str, Node], places: Places) -> str:
    x, y = _at(places[n.kernel.sha256])
    drawn = ""
    if n.parent:
        a, b = _at(places[n.parent])
        won = " won" if n.winning and nodes[n.parent].winning else ""
        drawn = f'<path class="edge{won}" d="M{a} {b}C{a + 30} {b} {x - 62} {y} {x} {y}"/>'
    if n.mate:
        a, b = _at(places[n.mate])
        drawn += f'<path class="mate" d="M{a} {b}Q{(a + x) // 2 + 14} {(b + y) // 2} {x} {y}"/>'
    return drawn


def _node(n: Node, places: Places) -> str:
    x, y = _at(places[n.kernel.sha256])
    kind = kind_of(n.fate)
    ring = f'<circle class="hollow best" cx="{x}" cy="{y}" r="7.5"/>' if n.leads else ""
    shape = "hollow" if n.fate in ("unmeasured", "unfinished") else "dot"
    hidden = sum(n.hidden.values())
    said = f"{n.speedup.ratio:.3g}×" if n.speedup else "" if shape == "hollow" else n.fate.replace("_", " ")
    more = f" +{hidden}" if hidden else ""
    return (
        f'{ring}<circle class="{shape} {kind}" cx="{x}" cy="{y}" r="4.5"><title>{escape(_told(n))}</title></circle>'
        f'<text class="name" x="{x + 11}" y="{y + 4}">{escape(said)}'
        f'<tspan class="soft"> {n.kernel.short[:4]}{more}</tspan></text>'
    )


def _told(n: Node) -> str:
    how = f"{n.operator or n.note} by {n.proposer}" if n.operator or n.note else f"by {n.proposer}"
    lines = [f"{n.kernel.short}, {how}, round {n.round}"]
    if n.kernel.tunables:
        lines.append(shown(n.kernel.tunables))
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
