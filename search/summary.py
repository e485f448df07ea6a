"""Summary of a run, read from the archive alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from forewarp.archive.rows import REJECTED, CandidateRow, DecisionRow, MeasurementRow, RunStatus
from forewarp.archive.store import Archive
from forewarp.core import serde
from forewarp.core.budget import Budget, Spend
from forewarp.core.values import Candidate, Cost, Forecast, Verdict
from forewarp.search import policy
from forewarp.search.account import Account, account
from forewarp.search.events import Alarmed
from forewarp.search.holdout import Holdout
from forewarp.search.settings import stored
from forewarp.search.state import standing
from forewarp.surrogate import prices


@dataclass(frozen=True, slots=True)
class RunWinner:
    """The run's winner, by its confirmation if `confirmed`: the highest of many noisy numbers is too high.

    `first_speedup` is the number that won. An ambiguous one wins only where there is no other.
    """

    candidate: Candidate
    speedup: float
    low: float
    high: float
    confirmed: bool
    first_speedup: float
    measurement_id: int
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class FalseDiscards:
    """Estimated share of the discards that were wrong, with its exact 95 % interval (Clopper and Pearson).

    Of `audited` discards drawn at random, `false` beat the incumbent of their round.
    """

    discarded: int
    audited: int
    false: int
    share: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class TierTotal:
    """A tier of forecasting in a run: how many candidates it answered for, how many unreadably, and the cost."""

    tier: str
    candidates: int
    cost: Cost
    unread: int = 0


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Counts, spend and winner of one run.

    `considered` passed the gate and were forecast, if there is a forecaster. `rejected` counts by gate outcome,
    `failures` by status other than ok. `measured` counts candidates; the confirmation is in `spend` only. `tiers` are
    the cheapest first. `holdout` is what the winner does on shapes that nobody tuned for.
    """

    run: str
    task: str
    target: str
    status: RunStatus
    reason: str
    forecaster: str
    proposer: str
    proposed: int
    considered: int
    measured: int
    rejected: Mapping[str, int]
    failures: Mapping[str, int]
    best: RunWinner | None
    note: str
    spend: Spend
    budget: Budget
    false_discards: FalseDiscards | None
    account: Account
    tiers: tuple[TierTotal, ...] = ()
    holdout: Holdout | None = None
    alarms: int = 0


def summarise(archive: Archive, run_id: str, *, over: bool = False) -> RunSummary:
    """Return the summary of a run, finished or not, `over` as of `Archive.spend`; raises `UsageError`."""
    run = archive.run(run_id)
    settings = stored(run.settings)
    rows = archive.candidates(run.id)
    outcomes = Counter(r.outcome for r in rows)
    measured = [r for r in rows if r.measurement is not None]
    forecast_at_all = sum(r.forecast is not None for r in rows)
    best, note = best_of(archive, run.id)
    holdouts = archive.holdouts(run.id)
    spend, tiers = archive.spend(run.id, over=over), _tiers(archive.forecasts(run.id))
    return RunSummary(
        run=run.id,
        task=run.task.name,
        target=run.target.name,
        status=run.status,
        reason=run.reason,
        forecaster=settings.forecaster,
        proposer=settings.proposer,
        proposed=len(rows),
        considered=forecast_at_all if settings.forecaster else outcomes["passed"],
        measured=len(measured),
        rejected={outcome: outcomes[outcome] for outcome in REJECTED if outcomes[outcome]},
        failures=dict(
            Counter(r.measurement.status for r in measured if r.measurement and r.measurement.status != "ok")
        ),
        best=best,
        note=note,
        spend=spend,
        budget=settings.budget,
        false_discards=_false_discards(rows, archive.decisions(run.id)),
        account=account(
            *(run.target, rows, [(t.candidates, t.cost) for t in tiers], spend, settings.compile_threads),
            prices=prices.load(),
        ),
        tiers=tiers,
        holdout=serde.from_data(Holdout, found) if (found := best and holdouts.get(best.candidate.sha256)) else None,
        alarms=sum(e.type == Alarmed.__name__ for e in archive.events(run.id)),
    )


def best_of(archive: Archive, run_id: str) -> tuple[RunWinner | None, str]:
    """Return the run's winner, the one that was confirmed if it did not fail that, and a remark or ""."""
    done = [m for m in archive.measurements(run=run_id) if m.state == "done"]
    ranked = [(standing(m.measurement, m.id), m) for m in done if m.purpose == "candidate"]
    able = [(place, m) for place, m in ranked if place is not None]
    firsts = [m for _, m in sorted(able, key=lambda pair: pair[0], reverse=True)]
    confirmation = next((m for m in done if m.purpose == "confirm"), None)
    if confirmation is None:
        return (_best(firsts[0], firsts[0], confirmed=False), "") if firsts else (None, "")
    kernel = confirmation.candidate.sha256
    # A damaged archive may have lost the measurement that won.
    first = next((m for m in firsts if m.candidate.sha256 == kernel), confirmation)
    if standing(confirmation.measurement, confirmation.id) is not None:
        return _best(confirmation, first, confirmed=True), ""
    others = [m for m in firsts if m.candidate.sha256 != kernel]
    result = confirmation.measurement
    note = f"{first.candidate.short} was fastest but failed its confirmation ({result.verdict if result else ''})"
    return _best(others[0], others[0], confirmed=False) if others else None, note


def exact_interval(hits: int, count: int) -> tuple[float, float]:
    """Return the Clopper-Pearson 95 % interval of a share."""
    from scipy.stats import binomtest  # slow to import, and few summaries have audits

    interval = binomtest(hits, count).proportion_ci()
    return float(interval.low), float(interval.high)


def _tiers(forecasts: Sequence[tuple[int, Forecast]]) -> tuple[TierTotal, ...]:
    answered: dict[str, dict[int, bool]] = {}
    costs: dict[str, Cost] = {}
    for proposal, forecast in forecasts:
        for answer in forecast.tiers or (forecast,):
            answered.setdefault(answer.forecaster, {})[proposal] = answer.raw_sum > 0
            costs[answer.forecaster] = costs.get(answer.forecaster, Cost()) + answer.cost
    return tuple(
        TierTotal(tier, len(found), costs[tier], unread=sum(not read for read in found.values()))
        for tier, found in answered.items()
    )


def _false_discards(rows: Sequence[CandidateRow], decisions: Sequence[DecisionRow]) -> FalseDiscards | None:
    measured = {r.proposal: r.measurement for r in rows if r.measurement is not None}
    audited = [d for d in decisions if policy.is_audit(d.decision) and d.proposal in measured]
    if not audited:
        return None
    # An ambiguous measurement shows nothing.
    shown = [0.0 if m.verdict == "ambiguous" else m.believed or 0.0 for m in (measured[d.proposal] for d in audited)]
    false = sum(s > d.decision.numbers["incumbent"] for s, d in zip(shown, audited, strict=True))
    low, high = exact_interval(false, len(audited))
    discarded = sum(policy.is_discard(d.decision) for d in decisions)
    return FalseDiscards(discarded, len(audited), false, false / len(audited), low, high)


def _best(row: MeasurementRow, first: MeasurementRow, *, confirmed: bool) -> RunWinner:
    m, won = row.measurement, first.measurement
    if m is None or m.speedup is None or m.low is None or m.high is None or won is None or won.speedup is None:
        raise ValueError("a winner has a speed-up with an interval")
    return RunWinner(row.candidate, m.speedup, m.low, m.high, confirmed, won.speedup, row.id, m.verdict)
