"""HTML of a run's decisions and their reasons, by round and by candidate, and of its proposers and forecasters."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from forewarp.report.html.markup import Cell, became, number, speedup, table
from forewarp.tools import wording
from forewarp.tools.wording import counted

if TYPE_CHECKING:
    from forewarp.tools.run_decisions import DecisionLine, ProposerLine
    from forewarp.tools.run_figures import RunFigures
    from forewarp.tools.run_report import SearchResult

ORDER = ("gain", "unsure", "incumbent", "room", "distance")
"""Numbers of a decision that come first; the policy may give more."""

MOST_NUMBERS = 12


def audits(document: SearchResult) -> str:
    """Summarise the audits of the forecaster's discards in a sentence."""
    a = document.audit
    if a is None:
        return "" if not document.forecaster else "No discard was audited, so nothing bounds the share of false ones."
    return (
        f"Audits: {a.audited} of {counted(a.discarded, 'discard')} drawn at random and measured; {a.false} beat the "
        f"best of their round: {a.share.ratio:.0%} false discards, [{a.share.low:.0%}, {a.share.high:.0%}] (95 %)."
    )


def by_round(figures: RunFigures) -> str:
    """Return a table with a line per round."""
    head = ("round", "proposed", "passed the gate", "decided on", "measured", "audits", "best after it [95 %]")
    rows = [
        (
            *(number(v, "d") for v in (r.round, r.proposed, r.passed, r.decided, r.measured, r.audits)),
            speedup(r.best),
        )
        for r in figures.rounds
    ]
    return table(head, rows, tall=len(rows) > 20)


def by_candidate(lines: Sequence[DecisionLine]) -> str:
    """Return a table with the last decision on each candidate; numbers that never differ stand above it."""
    if not lines:
        return ""
    varying, constant = _numbers(lines)
    head = (
        *("round", "kernel", "proposer", "action", "reason", "score", "p(correct)", "forecast [80 %]", "asked"),
        *(name.replace("_", " ") for name in varying),
        *("times", "came to", "measured [95 %]"),
    )
    said = ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in constant.items())
    note = f'<p class="soft">The same for all: {escape(said)}.</p>' if said else ""
    return note + table(head, [_line(d, varying) for d in lines], sort=True, tall=True)


def _numbers(lines: Sequence[DecisionLine]) -> tuple[list[str], dict[str, float]]:
    """Return the names of the numbers that differ, and the values of those that do not."""
    names = dict.fromkeys(name for d in lines for name in d.numbers)
    values = {name: {d.numbers[name] for d in lines if name in d.numbers} for name in names}
    constant = {name: next(iter(v)) for name, v in values.items() if len(v) == 1 and len(lines) > 1}
    varying = sorted(
        (n for n in names if n not in constant), key=lambda n: ORDER.index(n) if n in ORDER else len(ORDER)
    )
    return varying[:MOST_NUMBERS], constant


def _line(d: DecisionLine, varying: Sequence[str]) -> tuple[Cell | str, ...]:
    marks = [m for m, on in (("audit", d.audit), ("exploring", d.exploring), ("was discarded", d.discarded)) if on]
    reason = f"{d.reason} ({', '.join(marks)})" if marks and not d.reason.startswith(marks[0][:5]) else d.reason
    return (
        *(number(d.round, "d"), d.kernel, f"{d.proposer} {d.operator}".strip(), d.action, reason),
        *(number(d.score), number(d.p_valid, ".2f"), speedup(d.forecast), "+".join(d.forecasters)),
        *(number(d.numbers.get(name)) for name in varying),
        *(number(d.times, "d"), became(d.fate), speedup(d.speedup)),
    )


def proposers(lines: Sequence[ProposerLine]) -> str:
    """Return a table of the outcomes and costs of each proposer's kinds of change."""
    head = (
        *("proposer", "kind of change", "proposed", "passed", "measured", "failed", "improvements", "best [95 %]"),
        *("tokens", "dollars", "model s", "compile s"),
    )
    rows: list[tuple[Cell | str, ...]] = []
    for p in lines:
        tokens = p.cost.input_tokens + p.cost.output_tokens
        dollars = "unknown" if p.cost.dollars is None else f"{p.cost.dollars:.3f}" if p.cost.dollars else ""
        counts = (number(v, "d") for v in (p.proposed, p.passed, p.measured, p.failed, p.improvements))
        rows.append(
            (
                *(p.proposer, p.operator or "–", *counts, speedup(p.best), Cell(f"{tokens:,}" if tokens else "", "n")),
                *(Cell(dollars, "n"), number(p.cost.seconds or None), number(p.compile_s or None)),
            )
        )
    return table(head, rows, sort=len(rows) > 1)


def forecasters(document: SearchResult, figures: RunFigures) -> str:
    """Return a table of the forecasters with their candidates and costs, and one of candidates without an answer."""
    rows: list[tuple[Cell | str, ...]] = []
    for t in document.tiers:
        tokens = t.cost.input_tokens + t.cost.output_tokens
        cost = wording.price(t.cost).strip(" ()") or "free"
        rows.append(
            (t.tier, number(t.candidates, "d"), number(t.unread or None, "d"), cost, number(tokens or None, ",d"))
        )
    told = table(("forecaster", "candidates", "unreadable answers", "cost", "tokens"), rows)
    failed: list[tuple[Cell | str, ...]] = [
        (u.forecaster, number(u.candidates, "d"), number(u.times, "d"), Cell(u.problem, "t"))
        for u in figures.unanswered
    ]
    if failed:
        told += "<h3>Without a usable answer</h3>" + table(("forecaster", "candidates", "times", "problem"), failed)
    return told
