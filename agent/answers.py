"""Shortening of tool results for the model: rounded numbers, and nothing that another tool call can return."""

from __future__ import annotations

from typing import Any

from forewarp.agent.board import BoardRow
from forewarp.tools.measured import Micros
from forewarp.tools.parts import trim
from forewarp.tools.wording import microseconds, spread

MAX_LOG = 1200
MAX_SHAPES = 8

Answer = dict[str, Any]


def forecast(found: Answer) -> Answer:
    """Return the part of a `ForecastResult` that the model reads: no distribution; the log only without a forecast."""
    said = {k: found[k] for k in ("summary", "recommendation", "reason", "p_better", "best_so_far", "trials")}
    f = found["forecast"]
    if f is not None:
        said["forecast"] = {k: f[k] for k in ("p_valid", "p_faster", "median", "confidence", "rationale")}
    said["kernel"] = found["kernel"]["short"]
    said["already_measured"] = found["already_measured"]
    said["problems"] = found["evidence"]["problems"]
    said["log"] = trim(found["log"], MAX_LOG) if f is None else ""
    return _briefly(said)


def considered(found: Answer) -> Answer:
    """Return the part of a `Considered` that the model reads: the decision, the forecast, the measurement if any."""
    m = found["measured"]
    said: Answer = {
        "summary": found["summary"],
        "decision": found["decision"],
        "forecast": forecast(found["forecast"]),
    }
    if m is not None:
        said |= {k: m[k] for k in ("status", "verdict", "speedup", "flags", "source", "measurement_id")}
        said["shapes"] = _shapes(m["workloads"])
        said["log"] = trim(m["log"], MAX_LOG) if m["status"] != "ok" else ""
        said["forecast"].pop("summary", None)
    return _briefly(said)


def searched(found: Answer) -> Answer:
    """Return the part of a `SearchResult` that the model reads; `read_candidate` has the winner's text."""
    said: Answer = {k: found[k] for k in ("summary", "status", "run_id", "counts")}
    best = found["best"]
    if best is not None:
        kernel = {"kernel": best["kernel"]["short"], "tunables": best["kernel"]["tunables"]}
        told = {k: best[k] for k in ("speedup", "verdict", "confirmed", "flags")}
        said["best"] = _briefly({**kernel, **told, "shapes": _shapes(best["workloads"])})
    return said


def line(row: BoardRow) -> Answer:
    """Return one candidate as a short entry of a list."""
    f, e, m = row.forecast, row.expected, row.measured
    said: Answer = {"number": row.number, "kernel": f.kernel[:10], "task": f.task, "language": f.language}
    said |= {"tunables": f.tunables, "note": f.note, "advice": f.advice}
    if e.median is not None:
        said["forecast"] = spread(e.median, e.low, e.high)
    if m is not None:
        said["measured"] = m.status if m.speedup is None else spread(m.speedup, m.low, m.high)
        said["verdict"] = m.verdict
    return _briefly(said)


def _shapes(workloads: list[Answer]) -> list[Answer]:
    return [
        {k: w[k] for k in ("name", "verdict", "speedup", "candidate_us", "reference_us")}
        | {"noise": None if w["noise_percent"] is None else f"{w['noise_percent']:.1f} %"}
        for w in workloads[:MAX_SHAPES]
    ]


def _briefly(said: Answer) -> Answer:
    """Drop empty values from an answer, and round its intervals and fractions to significant digits."""
    return {k: _brief(v) for k, v in said.items() if v not in (None, "", [], {})}


def _brief(value: Any) -> Any:
    match value:
        case {"ratio": ratio, "low": low, "high": high}:
            return spread(ratio, low, high)
        case {"median": float(), "low": _, "high": _}:
            return microseconds(Micros.model_validate(value))
        case dict():
            return _briefly(value)
        case list():
            return [_brief(v) for v in value]
        case float():
            return float(f"{value:.3g}")
        case _:
            return value
