"""Decisions of a run with their reasons, outcomes by proposer, and failures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet

from pydantic import Field

from forewarp.archive.rows import REJECTED, CandidateRow, DecisionRow, EventRow
from forewarp.core.values import Cost
from forewarp.search import policy
from forewarp.tools.parts import Interval, Part, Price, median_of, speedup_of
from forewarp.tools.run_lineage import fate

MOST_GROUPS = 40
LOG_LINES = 12
_MARKS = {"audit", "explore", "discard", "order", "score", "p_valid"}
_ADDRESS = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8,}|\d+|/\S*/", re.IGNORECASE)


class DecisionLine(Part):
    """Last decision on a candidate, and the numbers that it rested on."""

    kernel: str
    round: int = Field(description="Round of the last decision.")
    proposed: int = Field(description="Round in which it was proposed.")
    times: int = Field(description="How often it was decided on.")
    proposer: str
    operator: str
    action: str
    reason: str
    score: float
    p_valid: float | None
    forecast: Interval | None
    forecasters: list[str] = Field(description="Who answered, the cheapest first.")
    numbers: dict[str, float] = Field(description="What else the decision rested on; see docs/searching.md.")
    audit: bool
    exploring: bool
    discarded: bool = Field(description="The forecast spoke against it the first time.")
    fate: str
    speedup: Interval | None


class RoundLine(Part):
    """One round: what came in, what went on, and the best speed-up after it."""

    round: int
    proposed: int
    passed: int
    decided: int
    measured: int
    audits: int
    best: Interval | None


class ProposerLine(Part):
    """Outcomes of one kind of change by one proposer. `cost` is that of proposing only."""

    proposer: str
    operator: str
    proposed: int
    passed: int
    measured: int
    failed: int = Field(description="Measured, but not correct.")
    improvements: int = Field(description="How often one of them became the best so far.")
    best: Interval | None
    cost: Price
    compile_s: float = Field(description="Seconds of compiling; nothing where the build was there already.")


class FailureGroup(Part):
    """Candidates that failed in the same way."""

    stage: str = Field(description="gate or measurement.")
    outcome: str
    reason: str
    count: int
    examples: list[str] = Field(description="First digits of some of them.")
    log: str = Field(description="First lines of the first one's log.")


class UnansweredLine(Part):
    """Number of candidates for which a forecaster had no usable answer, and the reason."""

    forecaster: str
    candidates: int
    times: int
    problem: str


def decision_lines(rows: Sequence[CandidateRow], decisions: Sequence[DecisionRow]) -> list[DecisionLine]:
    """Return the last decision on each candidate, in the order decided."""
    times = Counter(d.proposal for d in decisions)
    discarded = {d.proposal for d in decisions if policy.is_discard(d.decision)}
    lines: list[DecisionLine] = []
    for r in sorted(rows, key=lambda r: (r.decided_round or 0, r.proposal)):
        d = r.decision
        if d is None:
            continue
        tiers = r.forecast.tiers or (r.forecast,) if r.forecast else ()
        lines.append(
            DecisionLine(
                kernel=r.candidate.short,
                round=r.decided_round or 0,
                proposed=r.round,
                times=times[r.proposal],
                proposer=r.proposer,
                operator=r.operator,
                action=d.action,
                reason=d.reason,
                score=d.score,
                p_valid=r.forecast.p_valid if r.forecast else None,
                forecast=median_of(r.forecast) if r.forecast else None,
                forecasters=[t.forecaster for t in tiers],
                numbers={k: v for k, v in d.numbers.items() if k not in _MARKS},
                audit=policy.is_audit(d),
                exploring=bool(d.numbers.get("explore")),
                discarded=r.proposal in discarded,
                fate=fate(r),
                speedup=speedup_of(r.measurement) if r.measurement else None,
            )
        )
    return lines


def round_lines(
    rows: Sequence[CandidateRow], decisions: Sequence[DecisionRow], leads: Sequence[CandidateRow]
) -> list[RoundLine]:
    """Return a line for each round; `leads` are the candidates that were the best so far, in order."""
    decided = Counter(d.round for d in decisions)
    leading = {r.decided_round: r for r in leads}
    proposed, measuring = _by_round(rows, lambda r: r.round), _by_round(rows, _measured_in)
    best: Interval | None = None
    lines: list[RoundLine] = []
    for number in sorted({*proposed, *decided}):
        if number in leading and (m := leading[number].measurement):
            best = speedup_of(m)
        own, measured = proposed.get(number, []), measuring.get(number, [])
        lines.append(
            RoundLine(
                round=number,
                proposed=len(own),
                passed=sum(r.outcome == "passed" for r in own),
                decided=decided[number],
                measured=len(measured),
                audits=sum(policy.is_audit(r.decision) for r in measured if r.decision),
                best=best,
            )
        )
    return lines


def _measured_in(row: CandidateRow) -> int | None:
    return row.decided_round if row.measurement_id is not None else None


def _by_round(
    rows: Sequence[CandidateRow], round: Callable[[CandidateRow], int | None]
) -> dict[int, list[CandidateRow]]:
    found: dict[int, list[CandidateRow]] = {}
    for row in rows:
        if (number := round(row)) is not None:
            found.setdefault(number, []).append(row)
    return found


def proposer_lines(rows: Sequence[CandidateRow], leads: Sequence[CandidateRow]) -> list[ProposerLine]:
    """Return a line for each proposer's kinds of change, those that improved most often first."""
    groups: dict[tuple[str, str], list[CandidateRow]] = {}
    for r in rows:
        groups.setdefault((r.proposer, r.operator or r.note[:20] * (len(r.note) <= 20)), []).append(r)
    leading = {r.proposal for r in leads}
    lines = [_proposer(key, own, leading) for key, own in groups.items()]
    return sorted(lines, key=lambda line: (-line.improvements, -line.measured, -line.proposed))


def _proposer(key: tuple[str, str], own: Sequence[CandidateRow], leading: AbstractSet[int]) -> ProposerLine:
    measured = [r for r in own if r.measurement is not None]
    trusted = [r.measurement for r in measured if r.measurement and r.measurement.trusted]
    fastest = max(trusted, key=lambda m: m.speedup or 0.0, default=None)
    return ProposerLine(
        proposer=key[0],
        operator=key[1],
        proposed=len(own),
        passed=sum(r.outcome == "passed" for r in own),
        measured=len(measured),
        failed=sum(r.measurement.status != "ok" for r in measured if r.measurement),
        improvements=sum(r.proposal in leading for r in measured),
        best=speedup_of(fastest) if fastest else None,
        cost=Price.of(sum((r.cost for r in own), Cost())),
        compile_s=sum(r.build.seconds for r in own if r.build and not r.build.cached),
    )


def failures(rows: Sequence[CandidateRow]) -> list[FailureGroup]:
    """Group the failed candidates by cause, the largest group first; groups beyond `MOST_GROUPS` become one."""
    groups: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for r in rows:
        stage, outcome, log = _failure(r)
        if outcome:
            key = stage, outcome, _ADDRESS.sub("#", _telling(log))
            groups.setdefault(key, []).append((r.candidate.short, log))
    found = [
        FailureGroup(
            stage=stage,
            outcome=outcome,
            reason=_telling(own[0][1])[:200],
            count=len(own),
            examples=[short for short, _ in own[:5]],
            log="\n".join(line[:200] for line in own[0][1].strip().splitlines()[:LOG_LINES]),
        )
        for (stage, outcome, _), own in groups.items()
    ]
    found.sort(key=lambda g: (-g.count, g.stage, g.outcome))
    rest = found[MOST_GROUPS:]
    if rest:
        others = sum(g.count for g in rest)
        found = found[:MOST_GROUPS]
        said = f"{len(rest)} other reasons"
        found.append(FailureGroup(stage="", outcome="others", reason=said, count=others, examples=[], log=""))
    return found


def _failure(r: CandidateRow) -> tuple[str, str, str]:
    """Return the stage at which a candidate failed, the outcome and the log; empty texts if it did not fail."""
    if r.outcome in REJECTED:
        return "gate", r.outcome, r.reason
    m = r.measurement
    if m is None or m.trusted:
        return "", "", ""
    return "measurement", m.verdict if m.status == "ok" else m.status, "\n".join((*m.flags, m.log)).strip()


def _telling(log: str) -> str:
    """Return the first line that names an error, else the first one that is not blank."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if re.search(r"\berror\b", line, re.IGNORECASE)), lines[0] if lines else "")


def unanswered(events: Sequence[EventRow]) -> list[UnansweredLine]:
    """Count the candidates for which there was no usable answer, by forecaster and problem."""
    found: dict[tuple[str, str], list[int]] = {}
    for e in events:
        if e.type == "Unanswered":
            problem = str(e.data.get("problem", ""))[:300]
            found.setdefault((str(e.data["forecaster"]), problem), []).append(int(e.data["candidates"]))
    return [
        UnansweredLine(forecaster=who, candidates=sum(counts), times=len(counts), problem=problem)
        for (who, problem), counts in found.items()
    ]
