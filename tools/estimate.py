"""Estimate of what a search will take, before anything is spent on it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from forewarp.archive.history import TaskHistory, history
from forewarp.core.budget import CURRENCIES
from forewarp.core.protocols import Executor
from forewarp.core.values import Target, Task
from forewarp.search.settings import SearchSettings
from forewarp.tools.parts import SCHEMA_VERSION, Amounts, Device, Part

ENOUGH = 3
"""Fewest measurements, of an earlier run or of the task, that say more than typical figures do."""
MOST_LOOKED_UP = 500
DEVICE_S = {"cuda": (0.85, 0.98, 1.39), "cpu": (2.21, 5.95, 20.06)}
"""Seconds of the device per measurement: `benchmarks/results/h200/*_*.json` and `equal_budget_cpu.json` (which timed
half as long: the highest is doubled)."""
BESIDES_S = {"cuda": (0.52, 1.24, 1.71), "cpu": (1.34, 2.19, 5.09)}
"""Wall seconds per measurement besides measuring, for compiling, forecasting and deciding; from the same files."""
FORECAST = (693.0, 50.0, 3.0)
"""Input tokens, output tokens and seconds of a language model per forecast: `benchmarks/results/llm_test.parquet`, four
forecasts at a time."""
PROPOSAL = (6000.0, 3000.0, 15.0)
"""The same per program that a language model writes, four at a time and one per measurement: a guess."""
MODEL_RANGE = (0.4, 1.0, 2.5)
"""Range of what a language model takes, as shares of the likely value: a guess."""

End = Literal["measurements", "device_s", "dollars", "tokens", "wall_s", "candidates"]
Span = tuple[float, float, float]
"""A low, a likely and a high value."""
Dollars = Callable[[float, float], float | None]
"""From input and output tokens to dollars; None where the price is unknown."""


class Range(Part):
    """A low, a likely and a high value."""

    low: float
    likely: float
    high: float


class Estimate(Part):
    """The cost of a run until its first cap is reached; it may end earlier, when nothing promising is left to try.

    A range is null where no cap bounds it, or, of dollars, where the model's price is unknown.
    """

    schema_version: int = SCHEMA_VERSION
    summary: str
    task: str
    device: Device
    source: Literal["measured", "replay"]
    limit: Amounts
    devices: int = Field(default=1, description="How many candidates can be measured at once.")
    ends_by: End | None = Field(
        description="The cap that is likely to be reached first; candidates where a replayed pool holds no more; null "
        "where no cap bounds the run."
    )
    measurements: Range | None
    wall_s: Range | None
    device_s: Range | None
    tokens: Range | None
    dollars: Range | None
    basis: str = Field(description="What the figures rest on.")


def estimate(
    task: Task,
    target: Target,
    settings: SearchSettings,
    *,
    archive: Path,
    dollars: Dollars | None = None,
    replay: Executor | None = None,
    devices: int = 1,
) -> Estimate:
    """Estimate a run with these settings from what the archive at `archive` knows, else from typical figures.

    `devices` measure at once. `dollars` prices the tokens of the run's language model, None where it has none. `replay`
    looks recorded measurements up, None where there is a device. Nothing is written, compiled, measured or asked.
    Raises `ArchiveError` if there is an archive which cannot be read.
    """
    rows = None if replay is None else replay.candidates(task) or ()
    if replay is not None and rows is not None:
        booked = [replay.measure(task, row, replay.compile(task, row)).device_s for row in rows[:MOST_LOOKED_UP]]
        per, basis = {"device_s": _spread(booked or [0.0])}, f"{len(booked)} recorded measurements"
    else:
        past = history(archive, task.sha256, target.name)
        per, basis = _of_runs(past, settings) or _typical(past, target.kind, settings, dollars, devices)
    known = dollars is None or dollars(1.0, 1.0) is not None
    ends = [_end(settings, {k: v[i] for k, v in per.items()}, None if rows is None else len(rows)) for i in range(3)]
    totals = {k: _range([None if n is None else n * v[i] for i, (n, _) in enumerate(ends)]) for k, v in per.items()}
    nothing = _range([None if n is None else 0.0 for n, _ in ends])
    found = Estimate(
        summary="",
        task=task.name,
        device=Device.of(target),
        source="measured" if replay is None else "replay",
        limit=Amounts.of(settings.budget),
        devices=devices,
        ends_by=ends[1][1],
        measurements=_range([n for n, _ in ends]),
        wall_s=totals.get("wall_s", nothing),
        device_s=totals["device_s"],
        tokens=totals.get("tokens", nothing),
        dollars=totals.get("dollars", nothing) if known else None,
        basis=basis,
    )
    return found.model_copy(update={"summary": _in_words(found)})


def clock(seconds: float) -> str:
    """Return a duration for people."""
    if seconds < 99.5:
        return f"{seconds:.0f} s" if seconds >= 9.95 or not seconds else f"{seconds:.2g} s"
    return f"{seconds / 60:.1f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


def number(value: float) -> str:
    """Return a count with two digits that mean something."""
    return f"{value:.0f}" if value < 100 else f"{round(value, 1 - math.floor(math.log10(value))):,.0f}"


def _in_words(found: Estimate) -> str:
    def span(value: Range, form: Callable[[float], str] = number) -> str:
        low, likely, high = form(value.low), form(value.likely), form(value.high)
        return likely if low == high else f"{likely} ({low} to {high})"

    if found.measurements is None or found.wall_s is None or found.device_s is None:
        return "No cap bounds this run, so its cost cannot be estimated."
    parts = [f"{span(found.measurements)} measurements"]
    parts += [span(found.wall_s, clock)] if found.wall_s.high else []
    parts.append(f"{span(found.device_s, clock)} of device time" + f" on {found.devices} devices" * (found.devices > 1))
    if found.tokens is not None and found.tokens.high:
        parts.append(f"{span(found.tokens)} tokens")
        parts.append("dollars unknown" if found.dollars is None else span(found.dollars, "${:.2f}".format))
    caps = {"device_s": "device time", "wall_s": "time", "candidates": "recorded candidates"}
    end = f"the cap on {caps.get(found.ends_by or '', found.ends_by)}"
    return f"About {', '.join(parts)}; {end} ends it, or nothing promising is left."


def _end(settings: SearchSettings, per: dict[str, float], most: int | None) -> tuple[int | None, End | None]:
    """Return how many measurements a run makes and what ends it; None where nothing does."""
    found: tuple[int | None, End | None] = (most, None if most is None else "candidates")
    for name in CURRENCIES:
        cap, rate = getattr(settings.budget, name), 1.0 if name == "measurements" else per.get(name, 0.0)
        if cap is not None and rate and (found[0] is None or math.ceil(cap / rate) < found[0]):
            found = (math.ceil(cap / rate), name)
    return found


def _of_runs(past: TaskHistory, settings: SearchSettings) -> tuple[dict[str, Span], str] | None:
    """Return what earlier runs with the same setup took per measurement; None if there are none."""
    setup = ("proposer", "forecaster", "proposals_per_round", "measure_per_round")
    alike = [r for r in past.runs if all(r.settings.get(name) == getattr(settings, name) for name in setup)]
    alike = [r for r in alike if r.spend.measurements >= ENOUGH]
    if not alike:
        return None
    names = ("device_s", "wall_s", "tokens", "dollars")
    values = {name: [r.spend.of(name) / r.spend.measurements for r in alike] for name in names}
    per = {name: (min(v), statistics.median(v), max(v)) for name, v in values.items()}
    return per, f"{len(alike)} earlier run{'s' * (len(alike) > 1)} of this task here"


def _typical(
    past: TaskHistory, kind: str, settings: SearchSettings, dollars: Dollars | None, devices: int
) -> tuple[dict[str, Span], str]:
    """Return rates from the task's measurements where there are enough of them, else from typical figures."""
    here = len(past.device_s) >= ENOUGH
    device = _spread(past.device_s) if here else DEVICE_S[kind]
    basis = "this task's measurements here and typical figures" if here else "typical figures"
    picked = settings.measure_per_round if settings.forecaster else settings.proposals_per_round
    at_once = picked / math.ceil(picked / devices)  # a round ends when the last of its measurements does
    asked = {"llm": settings.proposals_per_round / settings.measure_per_round, "cascade": 1.0}
    forecasts = asked.get(settings.forecaster.partition(" ")[0], 0.0)
    written = float(settings.proposer.startswith("llm"))
    read, answered, seconds = (written * p + forecasts * f for p, f in zip(PROPOSAL, FORECAST, strict=True))
    if read:
        basis += "; what the language model takes is a guess"

    def span(value: Callable[[float, float, float], float]) -> Span:
        low, likely, high = map(value, device, BESIDES_S[kind], MODEL_RANGE)
        return low, likely, high

    per = {
        "device_s": device,
        "wall_s": span(lambda measured, besides, share: measured / at_once + besides + share * seconds),
        "tokens": span(lambda _m, _b, share: share * (read + answered)),
        "dollars": span(lambda _m, _b, share: (dollars and dollars(share * read, share * answered)) or 0.0),
    }
    return per, basis


def _spread(values: Sequence[float]) -> Span:
    """Return the 10 %, 50 % and 90 % points."""
    ordered = sorted(values)
    low, likely, high = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.1, 0.5, 0.9))
    return low, likely, high


def _range(values: Sequence[float | None]) -> Range | None:
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return None
    # A dear measurement under a cap on its currency makes fewer of them: the order may be the other way round.
    low, likely, high = sorted(known)
    return Range(low=low, likely=likely, high=high)
