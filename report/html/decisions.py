"""A run's decisions by round and by candidate, what became of its proposers and forecasters, and its failures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from forewarp.archive.rows import REJECTED, CandidateRow
from forewarp.core.untrusted_text import first_error
from forewarp.core.values import Cost, Decision
from forewarp.report.html.blocks import (
    CellValue,
    Fold,
    Heading,
    PageBlock,
    SmallPrint,
    SourceLines,
    TableCell,
    became,
    number,
    table,
    words,
)
from forewarp.report.html.changes import fate
from forewarp.search import policy
from forewarp.tools import wording
from forewarp.tools.parts import median_of, speedup_of
from forewarp.tools.run_report import RunRecord, SearchResult
from forewarp.tools.wording import counted

ORDER = ("gain", "unsure", "incumbent", "room", "distance")
"""Numbers of a decision that come first; the policy may give more."""
MOST_NUMBERS = 12
MOST_GROUPS = 40
LOG_LINES = 12
_MARKS = {"audit", "explore", "discard", "order", "score", "p_valid"}
"""Numbers of a decision that have a column of their own, or are said in words."""
_ADDRESS = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+|/\S*/", re.IGNORECASE)


def audits(document: SearchResult) -> str:
    """Summarise the audits of the forecaster's discards in a sentence."""
    a = document.audit
    if a is None:
        return "" if not document.forecaster else "No discard was audited, so nothing bounds the share of false ones."
    return (
        f"Audits: {a.audited} of {counted(a.discarded, 'discard')} drawn at random and measured; {a.false} beat the "
        f"best of their round: {a.share.ratio:.0%} false discards, [{a.share.low:.0%}, {a.share.high:.0%}] (95 %)."
    )


def lead(record: RunRecord) -> str:
    """Return how often each action was decided on last."""
    kinds = Counter(r.decision.action for r in _decided(record))
    counts = ", ".join(f"{n} {action}" for action, n in kinds.items())
    return f"The last decision on each candidate: {counts}. A heading sorts the table."


def _decided(record: RunRecord) -> list[_Decided]:
    rows = sorted(record.candidates, key=lambda r: (r.decided_round or 0, r.proposal))
    return [_Decided(r, r.decision) for r in rows if r.decision is not None]


@dataclass(frozen=True, slots=True)
class _Decided:
    row: CandidateRow
    decision: Decision

    @property
    def numbers(self) -> Mapping[str, float]:
        return {k: v for k, v in self.decision.numbers.items() if k not in _MARKS}


def by_candidate(record: RunRecord) -> list[PageBlock]:
    """Return a table with the last decision on each candidate; numbers that never differ stand above it."""
    lines = _decided(record)
    times = Counter(d.proposal for d in record.decisions)
    discarded = {d.proposal for d in record.decisions if policy.is_discard(d.decision)}
    values = {name: {d.numbers[name] for d in lines if name in d.numbers} for d in lines for name in d.numbers}
    constant = {name: next(iter(v)) for name, v in values.items() if len(v) == 1 and len(lines) > 1}
    varying = sorted((n for n in values if n not in constant), key=lambda n: ORDER.index(n) if n in ORDER else 99)

    def reason(d: _Decided) -> str:
        marks = {
            "audit": policy.is_audit(d.decision),
            "exploring": bool(d.decision.numbers.get("explore")),
            "was discarded": d.row.proposal in discarded,
        }
        on = [name for name, marked in marks.items() if marked]
        text = d.decision.reason
        return f"{text} ({', '.join(on)})" if on and not text.startswith(on[0][:5]) else text

    columns: dict[str, Callable[[_Decided], CellValue]] = {
        "round": lambda d: d.row.decided_round or 0,
        "kernel": lambda d: d.row.candidate.short,
        "proposer": lambda d: f"{d.row.proposer} {d.row.operator}".strip(),
        "action": lambda d: d.decision.action,
        "reason": reason,
        "score": lambda d: float(d.decision.score),
        "p(correct)": lambda d: number(d.row.forecast.p_valid if d.row.forecast else None, ".2f"),
        "forecast [80 %]": lambda d: median_of(d.row.forecast) if d.row.forecast else None,
        "asked": lambda d: "+".join(t.forecaster for f in [d.row.forecast] if f for t in f.tiers or (f,)),
        **{words(name): lambda d, name=name: _float(d.numbers.get(name)) for name in varying[:MOST_NUMBERS]},
        "times": lambda d: times[d.row.proposal],
        "came to": lambda d: became(fate(d.row)),
        "measured [95 %]": lambda d: speedup_of(d.row.measurement),
    }
    same = ", ".join(f"{words(name)} {value:.3g}" for name, value in constant.items())
    return [SmallPrint(f"The same for all: {same}.") if same else None, table(lines, columns, sort=True, tall=True)]


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def proposers(rows: Sequence[CandidateRow], leads: Sequence[str]) -> list[PageBlock]:
    """Return a table of each proposer's kinds of change, those that improved most often first."""
    groups: dict[tuple[str, str], list[CandidateRow]] = {}
    for r in rows:
        groups.setdefault((r.proposer, r.operator or r.note[:20] * (len(r.note) <= 20)), []).append(r)
    lines = sorted((_Proposer(*names, own, leads) for names, own in groups.items()), key=_Proposer.rank)
    columns: dict[str, Callable[[_Proposer], CellValue]] = {
        "proposer": lambda p: p.proposer,
        "kind of change": lambda p: p.operator or "–",
        "proposed": lambda p: len(p.rows),
        "passed": lambda p: sum(r.outcome == "passed" for r in p.rows),
        "measured": lambda p: len(p.measured),
        "failed": lambda p: sum(r.measurement.status != "ok" for r in p.measured if r.measurement),
        "improvements": lambda p: p.improvements,
        "best [95 %]": lambda p: p.best,
        "tokens": lambda p: (p.cost.input_tokens + p.cost.output_tokens) or None,
        "dollars": lambda p: (
            TableCell("unknown", "n") if p.cost.dollars is None else number(p.cost.dollars or None, ".3f")
        ),
        "model s": lambda p: p.cost.seconds or None,
        "compile s": lambda p: sum(r.build.seconds for r in p.rows if r.build and not r.build.cached) or None,
    }
    return [table(lines, columns, sort=len(lines) > 1)]


@dataclass(frozen=True, slots=True)
class _Proposer:
    """Candidates of one kind of change by one proposer."""

    proposer: str
    operator: str
    rows: Sequence[CandidateRow]
    leads: Sequence[str]

    @property
    def measured(self) -> list[CandidateRow]:
        return [r for r in self.rows if r.measurement is not None]

    @property
    def improvements(self) -> int:
        return sum(r.candidate.sha256 in self.leads for r in self.measured)

    @property
    def best(self) -> CellValue:
        trusted = [r.measurement for r in self.measured if r.measurement and r.measurement.trusted]
        return speedup_of(max(trusted, key=lambda m: m.speedup or 0.0, default=None))

    @property
    def cost(self) -> Cost:
        return sum((r.cost for r in self.rows), Cost())

    def rank(self) -> tuple[int, int, int]:
        return -self.improvements, -len(self.measured), -len(self.rows)


def forecasters(document: SearchResult, record: RunRecord) -> list[PageBlock]:
    """Return a table of the forecasters with their candidates and costs, and one of candidates without an answer."""
    told = table(
        document.tiers,
        {
            "forecaster": lambda t: t.tier,
            "candidates": lambda t: t.candidates,
            "unreadable answers": lambda t: t.unread or None,
            "cost": lambda t: wording.price(t.cost).strip(" ()") or "free",
            "tokens": lambda t: (t.cost.input_tokens + t.cost.output_tokens) or None,
        },
    )
    missing: dict[tuple[str, str], list[int]] = {}
    for e in record.events:
        if e.type == "Unanswered":
            problem = str(e.data.get("problem", ""))[:300]
            missing.setdefault((str(e.data["forecaster"]), problem), []).append(int(e.data["candidates"]))
    failed = table(
        missing.items(),
        {
            "forecaster": lambda f: f[0][0],
            "candidates": lambda f: sum(f[1]),
            "times": lambda f: len(f[1]),
            "problem": lambda f: TableCell(f[0][1], "t"),
        },
    )
    return [told, *([Heading("Without a usable answer"), failed] if failed else [])]


def failures(rows: Sequence[CandidateRow]) -> list[PageBlock]:
    """Return the failed candidates by cause, the largest group first; groups beyond `MOST_GROUPS` become one."""
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for r, stage, outcome, log in _failed(rows):
        key = stage, outcome, _ADDRESS.sub("#", first_error(log))
        groups.setdefault(key, []).append((r.candidate.short, log))
    ordered = sorted(groups.items(), key=lambda g: (-len(g[1]), g[0][:2]))
    blocks: list[PageBlock] = []
    for (stage, outcome, _), own in ordered[:MOST_GROUPS]:
        log = own[0][1]
        reason, shown = first_error(log)[:200], "\n".join(line[:200] for line in log.strip().splitlines()[:LOG_LINES])
        examples = SmallPrint(f"Such as {', '.join(short for short, _ in own[:5])}.")
        body = [examples, SourceLines.of(shown) if shown and shown != reason else None]
        blocks.append(Fold(f"{len(own):,} {words(outcome)} ({stage})", reason or "no reason given", body))
    if rest := ordered[MOST_GROUPS:]:
        blocks.append(f"{sum(len(own) for _, own in rest):,} others: {len(rest)} other reasons")
    return blocks


def failed(rows: Sequence[CandidateRow]) -> str:
    """Return how many candidates failed at the gate and when measured, in a sentence."""
    stages = Counter(stage for _, stage, _, _ in _failed(rows))
    return (
        f"{counted(stages['gate'], 'candidate')} stopped by the gate, without a measurement; "
        f"{stages['measurement']:,} failed when measured."
    )


def _failed(rows: Sequence[CandidateRow]) -> list[tuple[CandidateRow, str, str, str]]:
    """Return the candidates that failed, each with the stage, the outcome and the log."""
    found: list[tuple[CandidateRow, str, str, str]] = []
    for r in rows:
        if r.outcome in REJECTED:
            found.append((r, "gate", r.outcome, r.reason))
        elif (m := r.measurement) is not None and not m.trusted:
            found.append((r, "measurement", fate(r), "\n".join((*m.flags, m.log)).strip()))
    return found
