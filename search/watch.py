"""Drift watch: forecasts that no longer fit the measurements do not decide for a while."""

from __future__ import annotations

from dataclasses import dataclass, field

from forewarp.core.values import Forecast, Measurement
from forewarp.surrogate.drift import Drift

FALLBACK = 8
"""Number of outcomes to collect, by measuring everything, before forecasts are trusted again after an alarm."""


@dataclass(slots=True)
class DriftWatch:
    """The drift alarm of a run, as a fold over its forecasts and what was measured after them.

    After an alarm everything is measured until `FALLBACK` more outcomes have recalibrated the forecaster; then the
    alarm is set again at half its rate, so that all false alarms of a run together stay below twice that of the first.
    """

    drift: Drift = field(default_factory=Drift)
    alarms: int = 0
    waiting: int = 0

    @property
    def fallback(self) -> bool:
        """True while forecasts must not decide."""
        return self.waiting > 0

    def add(self, kernel: str, forecast: Forecast, measurement: Measurement) -> None:
        """Add one outcome; `kernel` is its identity."""
        from forewarp.surrogate.calibration import pit, pit_valid  # numpy, which a server that starts does without

        if self.waiting:
            self.waiting -= 1
            if not self.waiting:
                self.drift = Drift(alpha=self.drift.alpha / 2)
            return
        self.drift.update(pit_valid(forecast.p_valid, valid=measurement.trusted, key=kernel), "valid")
        # A timing that ended early counts, too: it ended because it was slow, and without the slow ones the rest would
        # look as if all forecasts were too low.
        if measurement.trusted and measurement.speedup is not None:
            self.drift.update(pit(forecast, measurement.speedup, kernel), "speed")
        if self.drift.alarmed:
            self.alarms += 1
            self.waiting = FALLBACK
