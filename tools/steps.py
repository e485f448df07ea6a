"""Forecasts and measurements of candidates as steps: rows of a live table, wherever a candidate came from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from forewarp.core.values import Z80
from forewarp.search import events
from forewarp.tools.parts import Interval, KernelId, Prediction, prediction_of, speedup_of

# The terminal imports this module before its first frame, which must not wait for numpy.
if TYPE_CHECKING:
    from forewarp.archive.store import Archive
    from forewarp.core.values import Forecast
    from forewarp.tools.forecast_kernel import ForecastResult
    from forewarp.tools.measured import MeasureResult


@dataclass(frozen=True, slots=True)
class CandidateForecast:
    """Step in which a candidate was forecast or rejected; a later one of the same kernel and task may outweigh it.

    Attributes:
        kernel: Identity (sha256); `parent` is that of the candidate it was made from, "" where there is none.
        source: The text.
        origin: agent, user, or the id of the run that proposed it.
        median: Forecast speed-up over the reference with its 80 % interval; None where it did not compile.
        p_valid: Probability that it is correct; `p_better` that it also beats the best so far.
        confidence: Probability of the likeliest of the eight ranges.
        advice: measure, skip, accept, or reject where it did not compile.
        trials: Measurements of the task on the device that the forecast knew; a run's forecasts know its own only.
            None in older records, which lack it.
        by_model: Whether a language model's answer is in it.
    """

    kernel: str
    task: str
    device: str
    language: str
    tunables: dict[str, int]
    source: str
    origin: str
    parent: str = ""
    note: str = ""
    forecaster: str = ""
    median: float | None = None
    low: float | None = None
    high: float | None = None
    p_valid: float | None = None
    p_faster: float | None = None
    p_better: float | None = None
    confidence: float | None = None
    advice: str = ""
    reason: str = ""
    trials: int | None = None
    by_model: bool = False

    def outweighs(self, other: CandidateForecast) -> bool:
        """Return whether this later forecast of a kernel is the better one: it knew as much as the other, or more.

        A language model's answer counts for more than any number of trials: it was paid for, and read the code.
        """
        if self.device != other.device or other.median is None:
            return True
        known, before = (self.by_model, self.trials or 0), (other.by_model, other.trials or 0)
        return self.median is not None and known >= before


@dataclass(frozen=True, slots=True)
class CandidateMeasured:
    """Step in which a candidate was measured. `surprise` is its distance from the forecast in standard deviations.

    `provenance` is measured or replay; `speedup` is over the reference, with its 95 % interval. Untrusted times have a
    verdict that says so.
    """

    kernel: str
    task: str
    status: str
    verdict: str
    speedup: float | None
    low: float | None
    high: float | None
    trusted: bool
    provenance: str
    measurement: int | None
    device_s: float
    surprise: float | None = None
    flags: tuple[str, ...] = ()

    def against(self, forecast: CandidateForecast) -> CandidateMeasured:
        """Return a copy whose surprise is the distance from this forecast."""
        return replace(self, surprise=_sigmas(forecast, self.speedup))


CandidateStep = CandidateForecast | CandidateMeasured


def forecast_steps(
    found: ForecastResult, texts: Sequence[tuple[str, str]], origin: str, *, parent: str = ""
) -> list[CandidateForecast]:
    """Return the kernels of a forecast as steps, the best first, without those that could not be read.

    `texts` are those of the kernels in the order of the request, each with what to call it.
    """
    ranked = [(one.kernel, one, one.position, one.problem) for one in found.ranking if one.kernel is not None]
    alone = [(found.kernel, found, 1, found.summary)]
    return [
        _forecast_step(
            kernel,
            one.forecast,
            task=found.task,
            device=found.device.name,
            source=texts[position - 1][0],
            note=texts[position - 1][1],
            origin=origin,
            parent=parent,
            advice="reject" if one.forecast is None else one.recommendation or "",
            reason=one.reason or problem,
            p_better=one.p_better,
            trials=found.trials,
        )
        for kernel, one, position, problem in (ranked if found.ranking else alone)
    ]


def measure_step(found: MeasureResult, forecast: CandidateForecast | None) -> CandidateMeasured:
    """Return a measurement as a step; `forecast` is the kernel's forecast, if there is one."""
    same = {name: getattr(found, name) for name in ("task", "status", "verdict", "trusted")}
    return _measure_step(
        *(found.kernel.sha256, found.speedup, forecast),
        **same,
        measurement=found.measurement_id,
        provenance=found.source,
        device_s=found.cost.device_s,
        flags=tuple(found.flags),
    )


def surprise(forecast: CandidateForecast | None, measured: Interval | None) -> float | None:
    """Return how many standard deviations (of log2 S) a measured speed-up S lies above its forecast's median.

    None without a forecast or a measured speed-up. A wrong kernel has no speed-up: its verdict is to be compared with
    `p_valid` instead.
    """
    return None if forecast is None or measured is None else _sigmas(forecast, measured.ratio)


def _sigmas(f: CandidateForecast, ratio: float | None) -> float | None:
    if ratio is None or f.median is None or f.low is None or f.high is None:
        return None
    if not 0 < f.low < f.high or ratio <= 0:
        return None
    return math.log2(ratio / f.median) / (math.log2(f.high / f.low) / (2 * Z80))


class RunSteps:
    """Converter of the events of one run into steps."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._run: events.RunStarted | None = None
        self._proposed: dict[str, events.Proposed] = {}
        self._forecast: dict[str, CandidateForecast] = {}
        self._trials = 0

    def of(self, event: events.Event) -> CandidateStep | None:
        """Return the step that an event makes; None if it makes none."""
        match event:
            case events.RunStarted():
                self._run = event
            case events.Proposed():
                self._proposed[event.kernel] = event
            case events.Forecasted():
                return self._expected(event.kernel, event.forecast)
            case events.Rejected():
                return self._expected(event.kernel, None, "reject", event.reason or event.outcome)
            case events.Decided():
                return self._expected(event.kernel, None, event.decision.action, event.decision.reason)
            case events.Measured() if event.purpose == "candidate":
                return self._measured(event)
            case _:
                pass
        return None

    def _expected(
        self, kernel: str, forecast: Forecast | None, advice: str = "", reason: str = ""
    ) -> CandidateForecast | None:
        proposed, run = self._proposed.get(kernel), self._run
        if proposed is None or run is None:
            return None
        before = self._forecast.get(kernel)
        if forecast is None and before is not None:
            step = replace(before, advice=advice, reason=reason)
        else:
            step = _forecast_step(
                KernelId.of(candidate := self._archive.candidate(kernel)),
                prediction_of(forecast),
                task=run.task,
                device=run.target,
                source=candidate.source,
                origin=run.run,
                parent=proposed.parent,
                note=proposed.note,
                advice=advice,
                reason=reason,
                trials=self._trials,
            )
        self._forecast[kernel] = step
        return step

    def _measured(self, told: events.Measured) -> CandidateMeasured | None:
        self._trials += 1
        m, run = self._archive.measurement(told.measurement, whole=False).measurement, self._run
        if m is None or run is None:
            return None
        same = {name: getattr(m, name) for name in ("status", "verdict", "trusted", "device_s", "flags")}
        return _measure_step(
            *(told.kernel, speedup_of(m), self._forecast.get(told.kernel)),
            **same,
            task=run.task,
            measurement=told.measurement,
            provenance=m.source,
        )


def _forecast_step(kernel: KernelId, prediction: Prediction | None, **fields: Any) -> CandidateForecast:
    """Return a step; `fields` are those that neither the kernel nor its forecast has."""
    if (p := prediction) is not None:
        fields |= {name: getattr(p, name) for name in ("forecaster", "p_valid", "p_faster", "confidence")}
        fields |= {"median": p.median.ratio, "low": p.median.low, "high": p.median.high}
        fields["by_model"] = any(a.forecaster.startswith("llm:") for a in p.tiers or (p,))
    return CandidateForecast(kernel=kernel.sha256, language=kernel.language, tunables=dict(kernel.tunables), **fields)


def _measure_step(
    kernel: str, speedup: Interval | None, forecast: CandidateForecast | None, **fields: Any
) -> CandidateMeasured:
    """Return a step; `fields` are those that the speed-up does not have."""
    ends = {"speedup": speedup and speedup.ratio, "low": speedup and speedup.low, "high": speedup and speedup.high}
    return CandidateMeasured(kernel=kernel, surprise=surprise(forecast, speedup), **ends, **fields)
