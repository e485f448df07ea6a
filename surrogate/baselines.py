"""Baseline forecasters, which look at no candidate: any other one has to beat them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from forewarp.core import bins
from forewarp.core.protocols import Subject, Trial
from forewarp.core.values import Forecast, Measurement, Target, Task


class ConstantForecaster:
    """Gives every candidate the same distribution and the same probability of being valid."""

    def __init__(self, name: str, probabilities: Sequence[float], p_valid: float, rationale: str = "") -> None:
        self.name = name
        self._answer = Forecast(bins.normalise(probabilities), p_valid, name, rationale)

    def forecast(
        self, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
    ) -> list[Forecast]:
        return [self._answer] * len(subjects)


def uniform() -> ConstantForecaster:
    """Return the forecaster that knows nothing: every bin is as likely, and validity is a coin."""
    return ConstantForecaster("uniform", [1.0] * bins.COUNT, 0.5, "every bin is as likely")


def climatology(measurements: Iterable[Measurement]) -> ConstantForecaster:
    """Return the frequencies of bins and of valid candidates, each with half a count more (Jeffreys' prior)."""
    counts, valid, rows = [0.5] * bins.COUNT, 0, 0
    for measurement in measurements:
        rows += 1
        if measurement.believed:
            valid += 1
            counts[bins.bin_of(measurement.believed)] += 1
    share = (valid + 0.5) / (rows + 1)
    return ConstantForecaster("climatology", counts, share, f"frequencies among {rows} measurements")
