"""Measurement guarded by a forecast: a kernel that is unlikely to beat the best so far is not measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from forewarp.tools.forecast_kernel import ForecastRequest, ForecastResult, forecast_kernel
from forewarp.tools.measure_kernel import MeasureRequest, MeasureStage, measure_kernel
from forewarp.tools.measured import MeasureResult
from forewarp.tools.parts import SCHEMA_VERSION, Part
from forewarp.tools.session import Executors

ConsideredDecision = Literal["measured", "held back", "refused", "failed"]


class Considered(Part):
    """Forecast of a kernel, the decision whether to measure it, and the measurement if it was made."""

    summary: str
    schema_version: int = SCHEMA_VERSION
    decision: ConsideredDecision = Field(
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
    stage: Callable[[MeasureStage], None] = lambda _: None,
    executors: Executors | None = None,
) -> Considered:
    """Forecast a kernel with the embedded forecaster, then measure it unless that is unlikely to be worth it.

    A kernel that does not compile is not measured. One with hardly a chance of beating the best so far, or that was
    measured already, is held back unless `insist` says why it is wanted. `forecast` is called with the forecast.
    `allow` is called before the device is used, and returns the reason for a refusal, "" to allow the measurement.
    Raises what `measure_kernel` raises.
    """
    stage("forecasting")
    found = forecast_kernel(ForecastRequest.of(request, kernels=[request.kernel]), executors=executors)
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
    """Return a sentence on a correct kernel that is not faster than the best before it; "" for others."""
    best, own = found.best_so_far, measured.speedup
    if best is None or own is None or not measured.trusted or own.ratio >= best.ratio:
        return ""
    apart = "below" if own.high < best.low else "no better than"
    return f" It is {apart} the best so far, {best}."
