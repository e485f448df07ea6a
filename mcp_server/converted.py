"""Results of the tools as answers: numbers rounded, lists short, the rest behind a link."""

from __future__ import annotations

from typing import Any

from forewarp.mcp_server.answers import (
    Best,
    Detail,
    ForecastAnswer,
    MeasureAnswer,
    Ranked,
    RunCandidate,
    SearchAnswer,
    Shape,
)
from forewarp.tools.forecasted import ForecastResult
from forewarp.tools.measured import MeasureResult
from forewarp.tools.parts import Amounts, trim
from forewarp.tools.run_report import BestKernel, CandidateLine, SearchResult

LOG = {"concise": 800, "detailed": 4000}
SOURCE = 2_500
SHAPES = 6
LINES = 20
POLL_S = 5.0


def forecast_answer(found: ForecastResult, detail: Detail) -> ForecastAnswer:
    """Convert a forecast into an answer."""
    f = found.forecast
    more = detail == "detailed"
    ranking = [
        Ranked(
            position=r.position,
            path=r.path,
            recommendation=r.recommendation,
            median=str(r.forecast.median) if r.forecast else None,
            p_faster=_round(r.forecast.p_faster) if r.forecast else None,
            p_best=_round(r.p_best),
            problem=trim(r.problem, 200),
        )
        for r in found.ranking
    ]
    return ForecastAnswer(
        summary=trim(found.summary, 900),
        recommendation=found.recommendation,
        reason=trim(found.reason, 300),
        status=found.status,
        task=found.task,
        device=found.device.name,
        kernel=found.kernel.short,
        median=str(f.median) if f else None,
        p_valid=_round(f.p_valid) if f else None,
        p_faster=_round(f.p_faster) if f else None,
        best_so_far=_shown(found.best_so_far),
        already_measured=_shown(found.already_measured),
        trials=found.trials,
        ranking=ranking,
        distribution={b.range: round(b.probability, 4) for b in f.distribution} if f and more else None,
        evidence={k: float(f"{v:.4g}") for k, v in found.evidence.facts.items()} if more else None,
        evidence_used=found.evidence_used if more else None,
        usd=found.cost.dollars,
        log=trim(found.log, LOG[detail]),
    )


def measure_answer(run_id: str, found: MeasureResult, detail: Detail, whole_log: int) -> MeasureAnswer:
    """Convert a measurement into an answer; `whole_log` is the length of its log, linked where it is not all here."""
    more = detail == "detailed"
    links: dict[str, str] = {}
    if whole_log > LOG[detail]:
        links["log"] = f"forewarp://jobs/{run_id}/log"
    if found.measurement_id is not None:
        links["kernel"] = f"forewarp://kernels/{found.kernel.sha256}"
    shapes = [
        Shape(
            name=w.name,
            verdict=w.verdict,
            speedup=str(w.speedup),
            candidate_us=_short(w.candidate_us.median),
            reference_us=_short(w.reference_us.median),
            noise_percent=None if w.noise_percent is None else _short(w.noise_percent),
            warm=_shown(w.warm),
            launched=_shown(w.launched),
        )
        for w in found.workloads[: None if more else SHAPES]
    ]
    return MeasureAnswer(
        summary=trim(found.summary, 700),
        run_id=run_id,
        status=found.status,
        verdict=found.verdict,
        trusted=found.trusted,
        speedup=_shown(found.speedup),
        source=found.source,
        task=found.task,
        device=found.device.name,
        kernel=found.kernel.short,
        anchor=found.anchor if found.anchor == "reference" else found.anchor[:10],
        shapes=shapes,
        flags=[trim(f, 300) for f in found.flags[:8]],
        checks=found.checks if more else None,
        device_state=found.device_state.model_dump(exclude_none=True) if found.device_state and more else None,
        phases={k: _short(v) for k, v in found.phases.items()} if more else None,
        measurement_id=found.measurement_id,
        device_s=_short(found.cost.device_s),
        log=trim(found.log, LOG[detail]),
        links=links,
    )


def search_answer(found: SearchResult, detail: Detail, *, lost: bool, folder: str, others: int) -> SearchAnswer:
    """Convert a run into an answer; `others` is how many other runs share its device."""
    running = found.status == "running" and not lost
    run = found.run_id
    summary = found.summary
    if running and not found.counts.considered:
        summary = f"The run on {found.task} has begun; nothing is measured yet."
    if lost:
        summary += f" Its process is gone; `forewarp resume {run}` goes on with it."
    elif running:
        summary += f" Call search_status with run_id {run} again."
        summary += f" It shares the device with {others} other run{'s' * (others != 1)}." if others else ""
    links = {"run": f"forewarp://runs/{run}", "report": f"forewarp://runs/{run}/report"}
    if found.best is not None:
        links["best"] = f"forewarp://runs/{run}/best"
    return SearchAnswer(
        summary=trim(summary, 1200),
        run_id=run,
        status="lost" if lost else found.status,
        reason=trim(found.reason, 300),
        poll_after_s=POLL_S if running else None,
        task=found.task,
        device=found.device.name,
        source=found.source,
        best=_best(found.best, whole=not running) if found.best else None,
        near_shapes=found.holdout.said if found.holdout else None,
        counts=found.counts.model_dump(),
        alarms=found.alarms,
        spent=_amounts(found.budget.spent),
        limit=_amounts(found.budget.limit),
        candidates=_lines(found) if detail == "detailed" else None,
        folder=folder if not running and not lost else None,
        links=links,
    )


def _best(best: BestKernel, *, whole: bool) -> Best:
    return Best(
        kernel=best.kernel.short,
        language=best.kernel.language,
        tunables=best.kernel.tunables,
        speedup=str(best.speedup),
        verdict=best.verdict,
        confirmed=best.confirmed,
        flags=[trim(f, 200) for f in best.flags[:4]],
        source=best.source if whole and len(best.source) <= SOURCE else None,
    )


def _lines(found: SearchResult) -> list[RunCandidate]:
    latest = found.candidates[::-1]
    ordered = [c for c in latest if c.measured] + [c for c in latest if not c.measured]
    return [_line(c) for c in ordered[:LINES]]


def _line(line: CandidateLine) -> RunCandidate:
    m = line.measured
    return RunCandidate(
        kernel=line.kernel.short,
        tunables=line.kernel.tunables,
        note=trim(line.note, 100),
        action=line.action,
        forecast=str(line.forecast.median) if line.forecast else None,
        measured=None if m is None else f"{m.verdict} {m.speedup or m.status}",
    )


def _amounts(amounts: Amounts) -> dict[str, float]:
    return {k: _short(v) for k, v in amounts.model_dump().items() if v is not None}


def _shown(value: Any) -> str | None:
    return None if value is None else str(value)


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _short(value: float) -> float:
    return float(f"{value:.4g}")
