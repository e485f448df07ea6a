"""The tree of candidates, who was made from whom and what became of them; and what improvements changed."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from markupsafe import Markup

from forewarp.report.html.blocks import (
    Fold,
    PageBlock,
    ScrolledPicture,
    SmallPrint,
    SourceLines,
    keys,
    kind_of,
    meaning,
    table,
    words,
)
from forewarp.report.html.chart import element, picture, tooltip
from forewarp.tools.parts import Interval, median_of, shown, speedup_of
from forewarp.tools.wording import counted

if TYPE_CHECKING:
    from forewarp.archive.rows import CandidateRow
    from forewarp.core.values import Candidate, Measurement

MOST_NODES = 240
MOST_CHANGES = 20
MOST_LINES = 240
MOST_TEXT = 250_000
"""Most characters of all diffs together; later diffs are cut to their first lines."""

STEP, ROW, LEFT, TOP = 24, 21, 14, 16
BESIDE = 11
"""Pixels from a candidate's dot to its label."""
LETTER = 7.0
"""Pixels that a letter of a label takes on average, at most."""

Rows = Mapping[str, "CandidateRow"]


@dataclass(frozen=True, slots=True)
class LineageNode:
    """One candidate of the tree, by its identity; `parent` and `mate` are nodes, "" where it has none there.

    `winning` marks the winner, its parent, that one's parent, and so on; `leads` what was the best so far. `hidden`
    counts the candidates made from it that are not in the tree, by what became of them.
    """

    kernel: str
    parent: str
    mate: str
    fate: str
    speedup: Interval | None
    about: str
    winning: bool
    leads: bool
    hidden: Mapping[str, int]

    @property
    def unmeasured(self) -> bool:
        """True if nothing is known of its speed yet."""
        return self.fate in ("unmeasured", "unfinished")

    @property
    def label(self) -> tuple[str, str]:
        """Result, and in a softer colour the candidate with what it was crossed with."""
        result = f"{self.speedup.ratio:.3g}×" if self.speedup else "" if self.unmeasured else words(self.fate)
        mate, more = f" with {self.mate[:4]}" if self.mate else "", sum(self.hidden.values())
        return result, f" {self.kernel[:4]}{mate}{f' +{more}' if more else ''}"


@dataclass(frozen=True, slots=True)
class Lineage:
    """Tree of the measured candidates and their ancestors; `left_out` counts those without a place in it."""

    nodes: Sequence[LineageNode]
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])


def fate(row: CandidateRow) -> str:
    """Return the outcome of a candidate in one word."""
    if row.measurement is not None:
        return fate_of(row.measurement)
    if row.measurement_id is not None:
        return "unfinished"
    return "unmeasured" if row.outcome in ("passed", "pending") else row.outcome


def fate_of(m: Measurement) -> str:
    """Return a measurement's verdict, or how it failed."""
    return m.verdict if m.status == "ok" else m.status


def by_kernel(rows: Sequence[CandidateRow]) -> dict[str, CandidateRow]:
    """Return the most informative row of each kernel: the measured one, else the first that passed, else the first."""

    def worth(row: CandidateRow) -> tuple[bool, bool]:
        return row.measurement_id is not None, row.outcome == "passed"

    found: dict[str, CandidateRow] = {}
    for row in rows:
        kernel = row.candidate.sha256
        if kernel not in found or worth(row) > worth(found[kernel]):
            found[kernel] = row
    return found


def lineage(rows: Sequence[CandidateRow], leads: Sequence[str], winner: str) -> Lineage:
    """Return the tree of a run. `leads` are the kernels that were the best so far, in order; `winner` may be ""."""
    known = by_kernel(rows)
    above = {kernel: _parent(row.parent, row, known) for kernel, row in known.items()}
    mates = {kernel: _parent(row.mate, row, known) for kernel, row in known.items()}
    # The winner's line follows first parents only: with crosses, nearly everything is an ancestor.
    winning = _ancestors(winner if winner in known else "", above, {})
    inside = winning | set(leads)

    def rank(kernel: str) -> tuple[bool, float]:
        m = known[kernel].measurement
        return kernel not in leads, -((m.speedup if m and m.trusted else None) or 0.0)

    for kernel in sorted((k for k, r in known.items() if r.measurement_id is not None), key=rank):
        more = _ancestors(kernel, above, mates) - inside
        if len(inside) + len(more) <= MOST_NODES:
            inside |= more
    hidden: dict[str, Counter[str]] = {}
    left_out: Counter[str] = Counter()
    for kernel, row in known.items():
        if kernel not in inside:
            counts = hidden.setdefault(above[kernel], Counter()) if above[kernel] in inside else left_out
            counts[fate(row)] += 1
    nodes = [
        LineageNode(
            kernel=kernel,
            parent=above[kernel] if above[kernel] in inside else "",
            mate=mates[kernel] if mates[kernel] in inside else "",
            fate=fate(row),
            speedup=speedup_of(row.measurement),
            about=_about(row, known, hidden.get(kernel, {})),
            winning=kernel in winning,
            leads=kernel in leads,
            hidden=hidden.get(kernel, {}),
        )
        for kernel, row in sorted(known.items(), key=lambda item: item[1].proposal)
        if kernel in inside
    ]
    return Lineage(nodes, left_out)


def _parent(named: str, row: CandidateRow, known: Rows) -> str:
    """Return the parent if it was proposed before its child, else "": a repeated text must not be its own ancestor."""
    found = known.get(named)
    return named if found is not None and found.proposal < row.proposal else ""


def _ancestors(kernel: str, above: Mapping[str, str], mates: Mapping[str, str]) -> set[str]:
    """Return a kernel and all that it was made from."""
    found: set[str] = set()
    left = [kernel]
    while left:
        kernel = left.pop()
        if kernel and kernel not in found:
            found.add(kernel)
            left += [above[kernel], mates.get(kernel, "")]
    return found


def _about(row: CandidateRow, known: Rows, hidden: Mapping[str, int]) -> str:
    """Return what a node's tooltip says."""
    how = f"{row.operator or row.note[:120]} by {row.proposer}" if row.operator or row.note else f"by {row.proposer}"
    lines = [
        f"{row.candidate.short}, {how}, round {row.round}",
        shown(row.candidate.tunables),
        f"crossed with {row.mate[:10]}" if _parent(row.mate, row, known) else "",
        f"forecast {median_of(row.forecast)}" if row.forecast else "",
        f"{speedup_of(row.measurement) or ''} {meaning(fate(row))}".strip(),
        "made from a candidate of another run" if row.parent and row.parent not in known else "",
        f"{_counts(hidden)} made from it, not shown" if hidden else "",
    ]
    return "\n".join(line for line in lines if line)


def lead(found: Lineage) -> str:
    """Return what the tree shows."""
    winning = [n for n in found.nodes if n.winning]
    text = "Candidates that were measured and their ancestors; a blue ring marks those that became the best so far."
    if len(winning) > 1:
        text += f" The thick blue line leads to the winner through {counted(len(winning) - 1, 'ancestor')}."
    elif winning and len(found.nodes) > 1:
        text += " The winner was made from no other candidate."
    return f"{text} “With” names the second parent of a cross." if any(n.mate for n in found.nodes) else text


def tree(found: Lineage) -> list[PageBlock]:
    """Return the tree, a row for each candidate; nothing where nothing was measured.

    A line leaves its parent downwards and turns right at the child's row. In between stand descendants only, further to
    the right, so that no line crosses a label.
    """
    if not found.nodes:
        return []
    places = _places(found)
    ends = [places[n.kernel][0] + BESIDE + LETTER * sum(map(len, n.label)) for n in found.nodes]
    width, height = round(max(ends)) + LEFT, 2 * TOP + ROW * (len(found.nodes) - 1)
    # The winner's line lies over those that leave the same parents.
    edges = [_edge(n, places) for n in sorted(found.nodes, key=lambda n: n.winning) if n.parent]
    nodes = [part for n in found.nodes for part in _node(n, *places[n.kernel])]
    title = f"Lineage of {counted(len(found.nodes), 'candidate')}, children below their parents and to the right"
    notes: list[str] = []
    if below := sum(sum(n.hidden.values()) for n in found.nodes):
        notes.append(f"+N: so many candidates were made from this one and are not shown, {below:,} in all")
    if found.left_out:
        notes.append(f"without a place in the tree: {_counts(found.left_out)}")
    drawn = ScrolledPicture(
        picture([*edges, *nodes], width, height, title, free=True), keys(n.fate for n in found.nodes)
    )
    return [drawn, SmallPrint(f"{'; '.join(notes)}.") if notes else None]


def _places(found: Lineage) -> dict[str, tuple[int, int]]:
    """Return the position of each candidate: below its parent and what came of the siblings before it."""
    children: dict[str, list[str]] = {}
    # The winner's line comes first, so that it stays on top.
    for n in sorted(found.nodes, key=lambda n: not n.winning):
        children.setdefault(n.parent, []).append(n.kernel)
    places: dict[str, tuple[int, int]] = {}
    # Depth first without recursion: a chain of repairs may be longer than Python's stack.
    left = [(kernel, 0) for kernel in reversed(children.get("", []))]
    while left:
        kernel, depth = left.pop()
        places[kernel] = (LEFT + STEP * depth, TOP + ROW * len(places))
        left += [(child, depth + 1) for child in reversed(children.get(kernel, []))]
    return places


def _edge(n: LineageNode, places: Mapping[str, tuple[int, int]]) -> Markup:
    (x, y), (above_x, above_y) = places[n.kernel], places[n.parent]
    kind = "edge won" if n.winning else "edge"
    return element("path", class_=kind, d=f"M{above_x} {above_y}V{y - 6}q0 6 6 6H{x}")


def _node(n: LineageNode, x: int, y: int) -> list[Markup]:
    result, name = n.label
    ring = [element("circle", class_="hollow best", cx=x, cy=y, r=7.5)] if n.leads else []
    shape = f"{'hollow' if n.unmeasured else 'dot'} {kind_of(n.fate)}"
    dot = element("circle", tooltip(n.about), class_=shape, cx=x, cy=y, r=4.5)
    return [*ring, dot, element("text", result, element("tspan", name, class_="soft"), x=x + BESIDE, y=y + 4)]


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {words(name)}" for name, n in sorted(counts.items(), key=lambda c: -c[1]))


def changes(
    rows: Sequence[CandidateRow], seeds: Sequence[Candidate], leads: Sequence[str], winner: str
) -> list[PageBlock]:
    """Return what the winner changed in its parent and in its seed, then what each of the last improvements changed."""
    known = by_kernel(rows)
    room = MOST_TEXT
    found: list[PageBlock] = []

    def add(row: CandidateRow, base: Candidate, title: str, *, unfolded: bool) -> None:
        nonlocal room
        texts = base.source.splitlines(), row.candidate.source.splitlines()
        diff = list(difflib.unified_diff(*texts, base.short, row.candidate.short, n=2, lineterm=""))
        kept = [line[:400] for line in diff[: MOST_LINES if room > 0 else 12]]
        room -= sum(map(len, kept))
        before, after = known.get(base.sha256), row
        gained = " → ".join(str(s) for r in (before, after) if r and (s := speedup_of(r.measurement)))
        how = (row.operator or row.note)[:80]
        about = f"{gained}, {how} by {row.proposer}" if how else f"{gained}, by {row.proposer}"
        body = [*_tunables(base, row.candidate, same_text=not diff), _code(kept, len(diff) - len(kept))]
        found.append(Fold(title, about, body if any(body) else ["Equal text and tunables."], unfolded))

    told: set[str] = set()
    if winner in known:
        row = known[winner]
        if parent := _parent(row.parent, row, known):
            told.add(winner)
            base = known[parent].candidate
            add(row, base, f"The winner {row.candidate.short} against its parent {base.short}", unfolded=True)
        seed = _seed(row, known, seeds)
        if seed is not None and seed.sha256 not in (winner, parent):
            add(row, seed, f"The winner {row.candidate.short} against the seed {seed.short}", unfolded=True)
    for place, kernel in [(k, kernel) for k, kernel in enumerate(leads) if k and kernel not in told][-MOST_CHANGES:]:
        row = known[kernel]
        parent = _parent(row.parent, row, known)
        base, relation = known[parent or leads[place - 1]].candidate, "its parent" if parent else "the best before it"
        add(row, base, f"{row.candidate.short} against {relation}, {base.short}", unfolded=False)
    return found


def _seed(row: CandidateRow, known: Rows, seeds: Sequence[Candidate]) -> Candidate | None:
    """Return the first ancestor; of a candidate without one, the task's seed of the same text, else of the language."""
    first = row
    while parent := _parent(first.parent, first, known):
        first = known[parent]
    if first is not row:
        return first.candidate
    fitting = [s for s in seeds if s.language == row.candidate.language]
    return next((s for s in fitting if s.source == row.candidate.source), fitting[0] if fitting else None)


def _tunables(before: Candidate, after: Candidate, *, same_text: bool) -> list[PageBlock]:
    names = dict.fromkeys((*before.tunables, *after.tunables))
    differ = [n for n in names if before.tunables.get(n) != after.tunables.get(n)]
    columns: dict[str, Callable[[str], str | int | None]] = {
        "tunable": lambda n: n,
        "before": lambda n: before.tunables.get(n),
        "after": lambda n: after.tunables.get(n),
    }
    note = "Only tunables differ; the text is the same." if differ and same_text else None
    return [note, table(differ, columns)]


def _code(diff: Sequence[str], left_out: int) -> SourceLines | None:
    if not diff:
        return None
    kinds = {"+": "a", "-": "d"}
    lines = [("h" if d.startswith(("---", "+++", "@@")) else kinds.get(d[:1], ""), d) for d in diff]
    more = [("h", f"… {left_out} more lines of the difference are left out")] if left_out else []
    return SourceLines([*lines, *more])
