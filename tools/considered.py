"""Measuring that looks first: a kernel is forecast before it is measured, and one that will hardly pay is held back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from forewarp.tools.forecast_kernel import ForecastRequest, forecast_kernel
from forewarp.tools.forecasted import ForecastResult
from forewarp.tools.measure_kernel import MeasureRequest, Stage, measure_kernel
from forewarp.tools.measured import MeasureResult
from forewarp.tools.parts import SCHEMA_VERSION, Part
from forewarp.tools.session import Executors

Decision = Literal["measured", "held back", "refused", "failed"]


class Considered(Part):
    """What was expected of a kernel and, where it was worth it, what came of measuring it."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    decision: Decision = Field(
        description="held back: the forecast speaks against it; refused: the user said no; failed: it does not compile."
    )
    insisted: str = Field(default="", description="Why it was measured although the forecast spoke against it.")
    forecast: ForecastResult
    measured: MeasureResult | None = None


def consider(
    request: MeasureRequest,
    *,
    insist: str = "",
    forecast: Callable[[ForecastResult], None] = lambda _: None,
    allow: Callable[[ForecastResult], str] = lambda _: "",
    stage: Callable[[Stage], None] = lambda _: None,
    executors: Executors | None = None,
) -> Considered:
    """Forecast a kernel with the embedded forecaster, then measure it unless that would hardly pay.

    A kernel that does not compile is not measured. One with hardly a chance of beating the best so far, or that was
    measured already, is held back unless `insist` says why it is wanted. `forecast` is told what was forecast; `allow`
    is asked before the device is held and returns why not, "" if it may be. Raises what `measure_kernel` raises.
    """
    stage("forecasting")
    found = forecast_kernel(
        ForecastRequest(task=request.task, kernel=request.kernel, against=request.against, place=request.place),
        executors=executors,
    )
    forecast(found)
    if found.forecast is None:
        return Considered(summary=f"Not measured: {found.summary}", decision="failed", forecast=found)
    insisted = insist.strip()
    if found.recommendation == "skip" and not insisted:
        return Considered(
            summary=f"Held back, not measured: {found.reason}. To measure it all the same, say why (insist).",
            decision="held back",
            forecast=found,
        )
    refused = allow(found)
    if refused:
        return Considered(summary=f"Not measured: {refused}", decision="refused", forecast=found)
    measured = measure_kernel(request, stage=stage, executors=executors)
    return Considered(
        summary=f"{measured.summary}{_beside(measured, found)}",
        decision="measured",
        insisted=insisted if found.recommendation == "skip" else "",
        forecast=found,
        measured=measured,
    )


def _beside(measured: MeasureResult, found: ForecastResult) -> str:
    """Say how a kernel that worked stands to the best before it."""
    best, own = found.best_so_far, measured.speedup
    if best is None or own is None or not measured.trusted or own.ratio >= best.ratio:
        return ""
    apart = "below" if own.high < best.low else "no better than"
    return f" It is {apart} the best so far, {best}."
