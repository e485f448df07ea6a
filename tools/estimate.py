"""Estimate of what a search will take, before anything is spent on it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from forewarp.archive.history import past_runs
from forewarp.core.budget import CURRENCIES
from forewarp.core.protocols import Executor
from forewarp.core.values import Cost, DeviceKind, Target, Task
from forewarp.search.settings import SearchSettings
from forewarp.surrogate import prices
from forewarp.tools.parts import SCHEMA_VERSION, Amounts, Device, Part, Source
from forewarp.tools.wording import amount, counted

ENOUGH = 3
"""Fewest measurements of an earlier run that say more than typical figures do."""
MOST_LOOKED_UP = 500

End = Literal["measurements", "device_s", "dollars", "tokens", "wall_s", "candidates"]
Span = tuple[float, float, float]
"""A low, a likely and a high value."""
BESIDES_S: Mapping[str, Span] = {"cuda": (0.52, 1.24, 1.71), "cpu": (1.34, 2.19, 5.09)}
"""Wall seconds per measurement besides measuring, for compiling, forecasting and deciding; from the same files as
`prices.MEASUREMENT_S`."""
PROGRAM = Cost(seconds=15.0, input_tokens=6000, output_tokens=3000)
"""Cost of a program that a language model writes: a guess."""
MODEL_RANGE: Span = (0.4, 1.0, 2.5)
"""Range of what a language model takes, as shares of the likely value: a guess."""

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
    source: Source
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
    """Estimate a run from what earlier ones of this kind took here, else from typical figures.

    `devices` measure at once. `dollars` prices the tokens of the run's language model, None where it has none. `replay`
    looks recorded measurements up, None where there is a device. Nothing is written, compiled, measured or asked.
    Raises `ArchiveError` if there is an archive which cannot be read.
    """
    rows = None if replay is None else replay.candidates(task) or ()
    if replay is not None and rows is not None:
        booked = sorted(replay.measure(task, r, replay.compile(task, r)).device_s for r in rows[:MOST_LOOKED_UP])
        spans = {"device_s": _span([booked[int(share * len(booked))] for share in (0.1, 0.5, 0.9)] or [0.0])}
        basis = f"{len(booked)} recorded measurements"
    else:
        setup = ("proposer", "forecaster", "proposals_per_round", "measure_per_round")
        past = past_runs(archive, task.sha256, target.name)
        alike = [r.spend for r in past if all(r.settings.get(name) == getattr(settings, name) for name in setup)]
        alike = [spend for spend in alike if spend.measurements >= ENOUGH]
        spans = {name: _span([s.of(name) / s.measurements for s in alike]) for name in CURRENCIES[1:]} if alike else {}
        basis = f"{counted(len(alike), 'earlier run')} of this task here"
        if not alike:
            spans, basis = _typical(target.kind, settings, dollars, devices)
    ends = [_end(settings, {k: v[i] for k, v in spans.items()}, None if rows is None else len(rows)) for i in range(3)]
    counts = [float(count) for count, _ in ends if count is not None]
    free = dict.fromkeys(CURRENCIES, (0.0, 0.0, 0.0)) | {"measurements": (1.0, 1.0, 1.0)}
    ranges = {name: _range(counts, span) for name, span in (free | spans).items()}
    if dollars is not None and dollars(1.0, 1.0) is None:
        ranges["dollars"] = None
    return Estimate.of(
        task,
        summary=_in_words(ranges, ends[1][1], devices),
        task=task.name,
        device=Device.of(target),
        source="measured" if replay is None else "replay",
        limit=Amounts.of(settings.budget),
        devices=devices,
        ends_by=ends[1][1],
        basis=basis,
        **ranges,
    )


def _in_words(ranges: Mapping[str, Range | None], end: str | None, devices: int) -> str:
    parts: list[str] = []
    for name in ("measurements", "wall_s", "device_s", "tokens", "dollars"):
        span = ranges[name]
        if span is not None and (span.high or name in ("measurements", "device_s")):
            low, likely, high = (amount(name, v) for v in (span.low, span.likely, span.high))
            what = {"wall_s": "", "dollars": "", "device_s": " of device time"}.get(name, f" {name}")
            parts.append(f"{likely}{f' ({low} to {high})' if low != high else ''}{what}")
            parts[-1] += f" on {devices} devices" * (name == "device_s" and devices > 1)
        elif name == "dollars" and (tokens := ranges["tokens"]) is not None and tokens.high:
            parts.append("dollars unknown")
    if ranges["measurements"] is None:
        return "No cap bounds this run, so its cost cannot be estimated."
    caps = {"device_s": "device time", "wall_s": "time", "candidates": "recorded candidates"}
    return f"About {', '.join(parts)}; the cap on {caps.get(end or '', end)} ends it, or nothing promising is left."


def _end(settings: SearchSettings, per: Mapping[str, float], most: int | None) -> tuple[int | None, End | None]:
    """Return how many measurements a run makes and what ends it; None where nothing does."""
    found: tuple[int | None, End | None] = (most, None if most is None else "candidates")
    for name, cap in settings.budget.caps.items():
        rate = 1.0 if name == "measurements" else per.get(name, 0.0)
        if rate and (found[0] is None or math.ceil(cap / rate) < found[0]):
            found = (math.ceil(cap / rate), name)
    return found


def _typical(
    kind: DeviceKind, settings: SearchSettings, dollars: Dollars | None, devices: int
) -> tuple[dict[str, Span], str]:
    """Return typical rates: a round ends when the last of its measurements does."""
    picked = settings.measure_per_round if settings.forecaster else settings.proposals_per_round
    at_once = picked / math.ceil(picked / devices)
    asked = {"llm": settings.proposals_per_round / settings.measure_per_round, "cascade": 1.0}
    forecasts, written = asked.get(settings.forecaster.partition(" ")[0], 0.0), settings.proposer.startswith("llm")
    read, answered, seconds = (
        written * getattr(PROGRAM, name) + forecasts * getattr(prices.ANSWER, name)
        for name in ("input_tokens", "output_tokens", "seconds")
    )
    shares = [(s * read, s * answered, s * seconds) for s in MODEL_RANGE]
    device = prices.MEASUREMENT_S[kind]
    waits = zip(device, BESIDES_S[kind], shares, strict=True)
    spans = {
        "device_s": device,
        "wall_s": _span([measured / at_once + besides + model for measured, besides, (_, _, model) in waits]),
        "tokens": _span([r + a for r, a, _ in shares]),
        "dollars": _span([(dollars and dollars(r, a)) or 0.0 for r, a, _ in shares]),
    }
    return spans, "typical figures" + "; what the language model takes is a guess" * bool(read)


def _span(values: Sequence[float]) -> Span:
    return min(values), statistics.median(values), max(values)


def _range(counts: Sequence[float], span: Span) -> Range | None:
    """Return what so many measurements take; None where a count is missing, because no cap bounds the run."""
    if len(counts) < len(span):
        return None
    # A dear measurement under a cap on its currency makes fewer of them: the order may be the other way round.
    low, likely, high = sorted(count * value for count, value in zip(counts, span, strict=True))
    return Range(low=low, likely=likely, high=high)
