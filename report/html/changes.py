"""Differences of the winner and of the last improvements from their parents."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence

from forewarp.archive.rows import CandidateRow
from forewarp.core.values import Candidate, Measurement
from forewarp.report.html.blocks import Fold, PageBlock, SourceLines, table
from forewarp.tools.parts import speedup_of

MOST_CHANGES = 20
MOST_LINES = 240
MOST_TEXT = 250_000
"""Most characters of all diffs together; later diffs are cut to their first lines."""

Rows = Mapping[str, "CandidateRow"]


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


def _parent(named: str, row: CandidateRow, known: Rows) -> str:
    """Return the parent if it was proposed before its child, else "": a repeated text must not be its own ancestor."""
    found = known.get(named)
    return named if found is not None and found.proposal < row.proposal else ""


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
