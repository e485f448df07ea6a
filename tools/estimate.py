"""Estimate of a search's cost and duration, before anything is spent on it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import Field

from forewarp.archive.history import History, PastRun, history
from forewarp.core.protocols import Executor
from forewarp.core.values import Target, Task
from forewarp.search.budget import CURRENCIES
from forewarp.search.settings import SearchSettings
from forewarp.tools import typical
from forewarp.tools.parts import SCHEMA_VERSION, Amounts, Device, Part
from forewarp.tools.typical import ZERO, Figure, Span

ENOUGH = 3
"""Fewest measurements of an earlier run, or of the task, whose figures are used instead of typical ones."""

MOST_LOOKED_UP = 500
ROUNDS = "the measurements of a round, and the devices"
_ENDS = {
    "measurements": "the cap on measurements",
    "device_s": "the cap on device time",
    "dollars": "the cap on dollars",
    "tokens": "the cap on tokens",
    "wall_s": "the deadline",
    "candidates": "the end of the recorded pool",
}

End = Literal["measurements", "device_s", "dollars", "tokens", "wall_s", "candidates"]

Dollars = Callable[[float, float], float | None]
"""Function from input and output tokens to dollars; returns None if the price is unknown."""


class Range(Part):
    """A low, a likely and a high value."""

    low: float
    likely: float
    high: float


class Basis(Part):
    """One figure that the estimate rests on, and where it comes from; a guess says so."""

    figure: str
    value: Range
    source: str


class Estimate(Part):
    """Estimated size, time and cost of a run up to its first cap; it may end earlier if nothing is left to try.

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
    candidates: Range | None = Field(description="Proposed; the gate stops some of them.")
    wall_s: Range | None
    device_s: Range | None
    compile_s: Range | None = Field(description="Summed over the candidates, however many compile at once.")
    tokens: Range | None
    dollars: Range | None
    earlier_runs: int = Field(description="Runs in the archive with this task, device and settings.")
    basis: list[Basis]


@dataclass(frozen=True, slots=True)
class _Rates:
    """Amounts per measurement: of each currency, of `candidates` and of `compile_s`, all related work included."""

    per: Mapping[str, Span]
    basis: Sequence[Basis]
    runs: int = 0
    once: Mapping[str, Span] = field(default_factory=dict[str, Span])
    """Amounts that come on top once per run."""


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

    `devices` measure at once; earlier runs count where they measured as many per round, which goes with the devices.
    `dollars` prices the tokens of the run's language model, None where it has none. `replay` looks recorded
    measurements up, None where there is a device. Nothing is written, compiled, measured or asked. Raises
    `ArchiveError` if there is an archive which cannot be read.
    """
    most: int | None = None
    if replay is not None:
        rates, most = _of_pool(replay, task, settings), len(replay.candidates(task) or ())
    else:
        past = history(archive, task.sha256, target.name)
        rates = _of_runs(past, settings) or _of_figures(past, target, settings, dollars, devices)
    priced = dollars is None or dollars(1.0, 1.0) is not None
    counts = [_measurements(settings, rates, scenario, most, priced=priced) for scenario in range(3)]
    ends_by = counts[1][1]
    totals = {
        name: _range(
            [None if n is None else n * span[i] + rates.once.get(name, ZERO)[i] for i, (n, _) in enumerate(counts)]
        )
        for name, span in rates.per.items()
    }
    found = Estimate(
        summary="",
        task=task.name,
        device=Device.of(target),
        source="measured" if replay is None else "replay",
        limit=Amounts.of(settings.budget),
        devices=devices,
        ends_by=ends_by,
        measurements=_range([n for n, _ in counts]),
        earlier_runs=rates.runs,
        basis=list(rates.basis),
        candidates=_at_most(totals["candidates"], most),
        wall_s=totals["wall_s"],
        device_s=totals["device_s"],
        compile_s=totals["compile_s"],
        tokens=totals["tokens"],
        dollars=totals["dollars"] if priced else None,
    )
    return found.model_copy(update={"summary": in_words(found)})


def in_words(found: Estimate) -> str:
    """Return the estimate as one sentence."""
    if found.measurements is None or found.candidates is None or found.wall_s is None or found.device_s is None:
        return "No cap bounds this run, so there is no telling what it takes."
    parts = [
        f"{span(found.measurements)} measurements of {span(found.candidates)} candidates",
        span(found.wall_s, clock),
        f"{span(found.device_s, clock)} of device time" + (f" on {found.devices} devices" if found.devices > 1 else ""),
    ]
    if found.tokens is not None and found.tokens.high:
        parts.append(f"{span(found.tokens)} tokens")
        parts.append("dollars unknown" if found.dollars is None else span(found.dollars, "${:.2f}".format))
    return f"About {', '.join(parts)}; {_ENDS[found.ends_by or 'measurements']} ends it, or nothing promising is left."


def short(found: Estimate) -> str:
    """Return the estimate in fewer words, with likely values alone but for the time."""
    if found.measurements is None or found.candidates is None or found.wall_s is None or found.device_s is None:
        return in_words(found)
    parts = [
        span(found.wall_s, clock),
        f"{number(found.measurements.likely)} measurements",
        f"{number(found.candidates.likely)} candidates",
        f"{clock(found.device_s.likely)} of device",
    ]
    if found.tokens is not None and found.tokens.high:
        parts.append(f"{number(found.tokens.likely)} tokens")
        parts.append("dollars unknown" if found.dollars is None else f"${found.dollars.likely:.2f}")
    return ", ".join(parts)


def origin(found: Estimate, *, brief: bool = False) -> str:
    """Name the sources of the estimate in a few words, and its figures that are guesses (if `brief`, how many)."""
    guessed = [b.figure for b in found.basis if typical.GUESS in b.source]
    here = any("archive" in b.source for b in found.basis)
    if found.source == "replay":
        base = "recorded measurements"
    elif found.earlier_runs:
        base = f"{_runs(found.earlier_runs)} of this task here"
    else:
        base = "this task's measurements here, and typical figures" if here else "typical figures"
    if not guessed:
        return f"from {base}"
    if brief:
        return f"from {base}; {len(guessed)} of {len(found.basis)} are guesses, see --dry-run"
    return f"from {base}; guessed: {', '.join(guessed)}"


def clock(seconds: float) -> str:
    """Format a duration, such as 12 s, 3.5 min or 2.1 h."""
    if seconds < 99.5:
        return f"{seconds:.0f} s" if seconds >= 9.95 or not seconds else f"{seconds:.2g} s"
    return f"{seconds / 60:.1f} min" if seconds < 5970 else f"{seconds / 3600:.1f} h"


def number(value: float) -> str:
    """Format a count, with two significant digits from 100 on."""
    return f"{value:.0f}" if value < 100 else f"{round(value, 1 - math.floor(math.log10(value))):,.0f}"


def span(value: Range, form: Callable[[float], str] = number) -> str:
    """Format the likely value, with low and high in brackets if these read differently."""
    low, likely, high = form(value.low), form(value.likely), form(value.high)
    return likely if low == high else f"{likely} ({low} to {high})"


def _measurements(
    settings: SearchSettings, rates: _Rates, scenario: int, most: int | None, *, priced: bool
) -> tuple[int | None, End | None]:
    """Return the number of measurements and the cap that ends the run; None if no cap bounds it."""
    found: tuple[int | None, End | None] = (None, None)
    if most is not None:
        found = (most, "candidates")
    for name in CURRENCIES:
        cap = getattr(settings.budget, name)
        rate = 1.0 if name == "measurements" else rates.per[name][scenario]
        if cap is None or not rate or (name == "dollars" and not priced):
            continue
        reached = math.ceil(cap / rate)
        if found[0] is None or reached < found[0]:
            found = (reached, name)
    return found


def _of_runs(past: History, settings: SearchSettings) -> _Rates | None:
    """Return the rates per measurement of earlier runs with the same settings; None without such runs."""
    alike = [r for r in past.runs if r.measurements >= ENOUGH and _alike(r, settings)]
    if not alike:
        return None
    few = len(alike) < ENOUGH
    source = f"{_runs(len(alike))} in the archive" + (", widened by a quarter" if few else "")
    per: dict[str, Span] = {}
    for name in ("device_s", "wall_s", "tokens", "dollars", "candidates", "compile_s"):
        values = [float(getattr(r, name)) / r.measurements for r in alike]
        wide = 0.25 if few and name != "candidates" else 0.0
        per[name] = Span(min(values) * (1 - wide), statistics.median(values), max(values) * (1 + wide))
    basis = [_basis(f"{name} per measurement", Figure(value, source)) for name, value in per.items() if value.high]
    return _Rates(per, basis, len(alike))


def _alike(run: PastRun, settings: SearchSettings) -> bool:
    names = ("proposer", "forecaster", "proposals_per_round", "measure_per_round")
    return all(run.settings.get(name) == getattr(settings, name) for name in names)


def _of_figures(
    past: History, target: Target, settings: SearchSettings, dollars: Dollars | None, devices: int
) -> _Rates:
    """Return rates from measurements and compiles of the task where there are enough, else from typical figures."""
    device = _known(past.device_s, "measurements") or typical.MEASUREMENT_S[target.kind]
    compiling = _known(past.compile_s, "compiles") or typical.COMPILE_S[target.kind]
    each = typical.CANDIDATE_S[target.kind]
    candidates = _candidates(settings)
    basis = [
        _basis("device seconds per measurement", device),
        _basis("compile seconds per candidate", compiling),
        _basis("other seconds per candidate", each),
        _basis("candidates per measurement", candidates),
    ]
    share = 1 / _at_once(settings, devices)
    if share < 1:
        basis.append(_basis("measurements at once, on average", Figure(Span(1 / share, 1 / share, 1 / share), ROUNDS)))
    read, written, waited, asked = _of_model(candidates.span, settings)
    per = {
        "device_s": device.span,
        "wall_s": device.span.by(share).plus(candidates.span.times(each.span)).plus(waited),
        "candidates": candidates.span,
        "compile_s": candidates.span.times(compiling.span),
        "tokens": read.plus(written),
        "dollars": Span(*((dollars(i, o) or 0.0) if dollars else 0.0 for i, o in zip(read, written, strict=True))),
    }
    # Confirming the winner, and trying it on near shapes, keeps only one device busy.
    once = {"wall_s": device.span.by(1 - share if settings.confirm else 0.0)}
    if settings.confirm and settings.holdout:
        near = device.span.times(typical.NEAR.span)
        once = {"device_s": near, "wall_s": near.plus(once["wall_s"])}
        basis.append(_basis("near shapes of the winner, in measurements", typical.NEAR))
    return _Rates(per, basis + asked, once=once)


def _at_once(settings: SearchSettings, devices: int) -> float:
    """Return how many devices measure at a time on average: a round ends when the last of its measurements does."""
    each = settings.measure_per_round if settings.forecaster else settings.proposals_per_round
    return each / math.ceil(each / devices)


def _of_model(candidates: Span, settings: SearchSettings) -> tuple[Span, Span, Span, list[Basis]]:
    """Return input tokens, output tokens and seconds of the language model per measurement, with their sources."""
    rounds = candidates.by(1 / settings.proposals_per_round)
    read, written, waited = ZERO, ZERO, ZERO
    basis: list[Basis] = []
    if settings.proposer.startswith("llm"):
        programs = rounds.times(typical.WRITTEN.span)
        read = read.plus(programs.times(typical.PROPOSAL_TOKENS_IN.span))
        written = written.plus(programs.times(typical.PROPOSAL_TOKENS_OUT.span))
        # A round's programs are written at the same time.
        waited = waited.plus(rounds.times(typical.PROPOSAL_S.span))
        basis += [
            _basis("programs that a model writes per round", typical.WRITTEN),
            _basis("input tokens per program", typical.PROPOSAL_TOKENS_IN),
            _basis("output tokens per program", typical.PROPOSAL_TOKENS_OUT),
        ]
    forecaster = settings.forecaster.partition(" ")[0]
    if forecaster in ("llm", "cascade"):
        asked = candidates if forecaster == "llm" else rounds.times(typical.ESCALATED.span)
        read = read.plus(asked.times(typical.FORECAST_TOKENS_IN.span))
        written = written.plus(asked.times(typical.FORECAST_TOKENS_OUT.span))
        waited = waited.plus(asked.times(typical.FORECAST_S.span).by(1 / typical.AT_ONCE))
        basis += [
            _basis("input tokens per forecast", typical.FORECAST_TOKENS_IN),
            _basis("output tokens per forecast", typical.FORECAST_TOKENS_OUT),
        ]
        if forecaster == "cascade":
            basis.append(_basis("candidates per round that a model forecasts", typical.ESCALATED))
    return read, written, waited, basis


def _of_pool(replay: Executor, task: Task, settings: SearchSettings) -> _Rates:
    """Return the rates of a replay: device time as recorded, wall time of the forecasts alone."""
    rows = (replay.candidates(task) or ())[:MOST_LOOKED_UP]
    seconds = [replay.measure(task, row, replay.compile(task, row)).device_s for row in rows]
    device = Figure(_spread(seconds), f"{len(seconds)} recorded measurements")
    candidates = _candidates(settings)
    waited = ZERO
    if settings.forecaster:
        forecasts = Span(1.0, 0.5 * settings.reconsider + 1, settings.reconsider + candidates.span.high)
        waited = forecasts.times(typical.LOOKUP_S.span)
    per = {
        "device_s": device.span,
        "wall_s": waited,
        "candidates": candidates.span,
        "compile_s": ZERO,
        "tokens": ZERO,
        "dollars": ZERO,
    }
    basis = [
        _basis("device seconds per measurement, as recorded", device),
        _basis("seconds per forecast", typical.LOOKUP_S),
        _basis("candidates per measurement", candidates),
    ]
    return _Rates(per, basis)


def _candidates(settings: SearchSettings) -> Figure:
    """Return how many candidates are proposed per measurement, the confirmation counted."""
    budget = settings.budget.measurements
    searched = 1.0 if budget is None or budget < 2 or not settings.confirm else 1 - 1 / budget
    if not settings.forecaster:
        return Figure(Span(1.0, 1.2, 1.5).by(searched), typical.GUESS)
    # Audits measure some of a round's candidates besides those that are picked.
    most = settings.proposals_per_round / settings.measure_per_round * searched
    audited = 1 + settings.audit_budget if settings.audit else 1.0
    return Figure(Span(most / (2 * audited - 1), most / audited, most), "the settings of the run")


def _known(values: Sequence[float], what: str) -> Figure | None:
    if len(values) < ENOUGH:
        return None
    return Figure(_spread(values), f"the latest {len(values)} {what} of this task on this device in the archive")


def _spread(values: Sequence[float]) -> Span:
    """Return the 10 %, 50 % and 90 % points."""
    ordered = sorted(values) or [0.0]
    return Span(*(ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.1, 0.5, 0.9)))


def _range(values: Sequence[float | None]) -> Range | None:
    known = [v for v in values if v is not None]
    if len(known) < len(values):
        return None
    # Under a cap, a higher cost per measurement allows fewer measurements, so that totals may come in reverse order.
    low, likely, high = sorted(known)
    return Range(low=low, likely=likely, high=high)


def _runs(count: int) -> str:
    return f"{count} earlier run{'s' * (count != 1)}"


def _at_most(value: Range | None, most: int | None) -> Range | None:
    if value is None or most is None:
        return value
    return Range(low=min(value.low, most), likely=min(value.likely, most), high=min(value.high, most))


def _basis(figure: str, found: Figure) -> Basis:
    low, likely, high = found.span
    return Basis(figure=figure, value=Range(low=low, likely=likely, high=high), source=found.source)
