"""Reliability diagrams: how often forecasts came true against how often they said they would."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from forewarp.report import plots

if TYPE_CHECKING:
    from forewarp.tools.calibration import CalibrationScores, ReliabilityPoint, TierCalibration

ReliabilityKind = Literal["confidence", "faster"]
DIAGRAMS: tuple[tuple[str, ReliabilityKind], ...] = (
    ("likeliest bin: share right, by confidence", "confidence"),
    ("correct and faster: share that was, by forecast probability", "faster"),
)

WIDTH, HEIGHT = 64, 16


def terminal(tier: TierCalibration, kind: ReliabilityKind, title: str) -> str:
    """Return one diagram as text; "" with fewer than two points."""
    before, after = _points(tier.before, kind), _points(tier.after, kind)
    if len(before) < 2:
        return ""
    drawn = plots.reliability([("○", before), ("●", after)], plots.fitting(WIDTH), HEIGHT).strip("\n ")
    legend = "○ as given, ● corrected" if after else "○ as given"
    return f"{title} ({legend})\n   {drawn}"


def _points(scores: CalibrationScores | None, kind: ReliabilityKind) -> list[ReliabilityPoint]:
    if scores is None:
        return []
    return scores.confidence if kind == "confidence" else scores.faster
