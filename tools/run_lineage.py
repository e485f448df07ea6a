"""Lineage of a run's candidates: the tree of those that were measured, and the changes at each improvement."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from forewarp.archive.rows import CandidateRow
from forewarp.core.errors import CandidateError
from forewarp.core.values import DEVICE_ONLY, Candidate, Task
from forewarp.gpu_runner.formats import plan as plans
from forewarp.tools.parts import Interval, KernelId, Part, median_of, speedup_of

MOST_NODES = 240
MOST_CHANGES = 20
MOST_LINES = 240
MOST_TEXT = 250_000
"""Most characters of all diffs together; later diffs are cut to their first lines."""


class LineageNode(Part):
    """One candidate of the tree. `fate` is its verdict or status, "unmeasured" or "unfinished"."""

    kernel: KernelId
    parent: str = Field(description="Identity of its parent in the tree; empty for a root.")
    mate: str = Field(description="Identity of a second parent in the tree, where two were crossed; else empty.")
    outside: bool = Field(description="Made from a candidate that is not of this run.")
    operator: str
    proposer: str
    note: str
    round: int
    fate: str
    speedup: Interval | None
    forecast: Interval | None
    winning: bool = Field(description="The winner, its parent, that one's parent, and so on.")
    leads: bool = Field(description="Was the best so far when it was measured.")
    hidden: dict[str, int] = Field(
        description="Candidates made from it that are not in the tree, by what became of them."
    )


class Lineage(Part):
    """Tree of the measured candidates and their ancestors, parents before children."""

    nodes: list[LineageNode]
    left_out: dict[str, int] = Field(description="Candidates without a place in the tree, by what became of them.")


class TunableChange(Part):
    """One tunable of the parent and of the candidate; null where it has none of that name."""

    name: str
    before: int | None
    after: int | None


class Change(Part):
    """Differences between a candidate and another one; `diff` is unified, empty where the texts are equal."""

    what: Literal["winner against its parent", "winner against the seed", "improvement"]
    kernel: KernelId
    base: KernelId
    relation: str = Field(description="What the other one is: its parent, the seed, or the best before it.")
    operator: str
    proposer: str
    note: str
    before: Interval | None
    after: Interval | None
    tunables: list[TunableChange]
    diff: list[str]
    lines_left_out: int


def fate(row: CandidateRow) -> str:
    """Return the outcome of a candidate in one word."""
    if row.measurement is not None:
        return row.measurement.verdict if row.measurement.status == "ok" else row.measurement.status
    if row.measurement_id is not None:
        return "unfinished"
    return "unmeasured" if row.outcome in ("passed", "pending") else row.outcome


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
    winning = _ancestors([winner] if winner in known else [], above, {})
    shown = _shown(known, above, mates, leads, winning)
    hidden: dict[str, Counter[str]] = {}
    left_out: Counter[str] = Counter()
    for kernel, row in known.items():
        if kernel not in shown:
            (hidden.setdefault(above[kernel], Counter()) if above[kernel] in shown else left_out)[fate(row)] += 1
    nodes = [
        LineageNode(
            kernel=KernelId.of(row.candidate),
            parent=above[kernel] if above[kernel] in shown else "",
            mate=mates[kernel] if mates[kernel] in shown else "",
            outside=bool(row.parent) and row.parent not in known,
            operator=row.operator,
            proposer=row.proposer,
            note=row.note[:120],
            round=row.round,
            fate=fate(row),
            speedup=speedup_of(row.measurement) if row.measurement else None,
            forecast=median_of(row.forecast) if row.forecast else None,
            winning=kernel in winning,
            leads=kernel in leads,
            hidden=dict(hidden.get(kernel, {})),
        )
        for kernel, row in sorted(known.items(), key=lambda item: item[1].proposal)
        if kernel in shown
    ]
    return Lineage(nodes=nodes, left_out=dict(left_out))


def _parent(named: str, row: CandidateRow, known: Mapping[str, CandidateRow]) -> str:
    """Return the parent if it was proposed before its child, else "": a repeated text must not be its own ancestor."""
    found = known.get(named)
    return named if found is not None and found.proposal < row.proposal else ""


def _ancestors(kernels: Sequence[str], above: Mapping[str, str], mates: Mapping[str, str]) -> set[str]:
    found: set[str] = set()
    left = list(kernels)
    while left:
        kernel = left.pop()
        if kernel and kernel not in found:
            found.add(kernel)
            left += [above[kernel], mates.get(kernel, "")]
    return found


def _shown(
    known: Mapping[str, CandidateRow],
    above: Mapping[str, str],
    mates: Mapping[str, str],
    leads: Sequence[str],
    winning: set[str],
) -> set[str]:
    """Return the kernels to show: the leads and the winner's line, then the fastest measured ones with their ancestors.

    Those that would make it more than `MOST_NODES` kernels are left out.
    """
    measured = [k for k, r in known.items() if r.measurement_id is not None]

    leading = set(leads)

    def rank(kernel: str) -> tuple[bool, float]:
        m = known[kernel].measurement
        return kernel not in leading, -((m.speedup if m and m.trusted else None) or 0.0)

    shown = winning | leading
    for kernel in sorted(measured, key=rank):
        more = _ancestors([kernel], above, mates) - shown
        if len(shown) + len(more) <= MOST_NODES:
            shown |= more
    return shown


def changes(rows: Sequence[CandidateRow], task: Task, leads: Sequence[str], winner: str) -> list[Change]:
    """Return what the winner changed in its parent and in its seed, then what each of the last improvements changed."""
    known = by_kernel(rows)
    found: list[Change] = []
    if winner in known:
        row = known[winner]
        if (parent := _parent(row.parent, row, known)) != "":
            found.append(_change("winner against its parent", row, known[parent].candidate, "its parent", known))
        seed = _seed(row, known, task)
        if seed is not None and seed.sha256 not in (winner, parent):
            found.append(_change("winner against the seed", row, seed, "the seed", known))
    shown = {c.kernel.sha256 for c in found if c.what == "winner against its parent"}
    for place, kernel in [(k, lead) for k, lead in enumerate(leads) if k and lead not in shown][-MOST_CHANGES:]:
        row = known[kernel]
        parent = _parent(row.parent, row, known)
        base, relation = (parent, "its parent") if parent else (leads[place - 1], "the best before it")
        found.append(_change("improvement", row, known[base].candidate, relation, known))
    return _shortened(found)


def _seed(row: CandidateRow, known: Mapping[str, CandidateRow], task: Task) -> Candidate | None:
    """Return the first ancestor; of a candidate without one, the task's seed of the same text, else of the language."""
    first = row
    while (parent := _parent(first.parent, first, known)) != "":
        first = known[parent]
    if first is not row:
        return first.candidate
    seeds = [s for s in task.seeds if s.language == row.candidate.language]
    chosen = next((s for s in seeds if s.source == row.candidate.source), seeds[0] if seeds else None)
    return _with_defaults(chosen) if chosen else None


def _with_defaults(seed: Candidate) -> Candidate:
    if seed.language not in DEVICE_ONLY:
        return seed
    try:
        return Candidate(seed.source, seed.language, plans.parse(seed).defaults() | dict(seed.tunables))
    except CandidateError:
        return seed


def _change(
    what: Literal["winner against its parent", "winner against the seed", "improvement"],
    row: CandidateRow,
    base: Candidate,
    relation: str,
    known: Mapping[str, CandidateRow],
) -> Change:
    after, before = row.candidate, base
    other = known.get(base.sha256)
    names = dict.fromkeys((*before.tunables, *after.tunables))
    texts = (before.source.splitlines(), after.source.splitlines())
    return Change(
        what=what,
        kernel=KernelId.of(after),
        base=KernelId.of(base),
        relation=relation,
        operator=row.operator,
        proposer=row.proposer,
        note=row.note[:400],
        before=speedup_of(other.measurement) if other and other.measurement else None,
        after=speedup_of(row.measurement) if row.measurement else None,
        tunables=[
            TunableChange(name=n, before=before.tunables.get(n), after=after.tunables.get(n))
            for n in names
            if before.tunables.get(n) != after.tunables.get(n)
        ],
        diff=list(difflib.unified_diff(*texts, base.short, after.short, lineterm="", n=2)),
        lines_left_out=0,
    )


def _shortened(found: Sequence[Change]) -> list[Change]:
    room, short = MOST_TEXT, list[Change]()
    for change in found:
        most = MOST_LINES if room > 0 else 12
        kept = [line[:400] for line in change.diff[:most]]
        room -= sum(map(len, kept))
        short.append(change.model_copy(update={"diff": kept, "lines_left_out": len(change.diff) - len(kept)}))
    return short
