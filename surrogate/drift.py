"""An alarm for measured outcomes that no longer look like the forecasts: a test martingale, valid at any time.

Under calibrated forecasts the probability integral transforms of the outcomes are uniform, each given those before it.
A gambler who bets against that starts with 1 and, by Ville's inequality, ever holds 1/α with probability at most α. The
bets are those of the simple jumper (Vovk, Petej, Nouretdinov, Ahlberg, Carlsson, Gammerman 2021): 1 + ε·(u − ½), with
a little money moved between the ε at each step so that a change late in a run is noticed, too. One jumper bets on u
itself (forecasts too high or too low), one on |2u − 1| (too sure or too doubtful), for each stream of outcomes; the
money of all is averaged.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field

from forewarp.core import bins
from forewarp.core.values import Forecast, Measurement

ALPHA = 0.01
"""Probability of a false alarm in a whole run, however long, at most."""

FALLBACK = 8
"""Number of outcomes to collect, by measuring everything, before forecasts are trusted again after an alarm."""

STREAMS = ("speed", "valid")

_STAKES = (-2.0, -1.0, 0.0, 1.0, 2.0)
_JUMP = 0.02


@dataclass(slots=True)
class Drift:
    """The alarm's state as plain numbers: what each jumper, two per stream, has on each stake. It stays raised."""

    alpha: float = ALPHA
    count: int = 0
    alarmed_at: int | None = None
    purses: list[list[float]] = field(
        default_factory=lambda: [[1 / len(_STAKES)] * len(_STAKES) for _ in range(2 * len(STREAMS))]
    )

    @property
    def evidence(self) -> float:
        """Value of the test martingale, which starts at 1; the alarm goes off at 1/alpha."""
        return sum(sum(p) for p in self.purses) / len(self.purses)

    @property
    def alarmed(self) -> bool:
        return self.alarmed_at is not None

    def observe(self, kernel: str, forecast: Forecast, *, valid: bool, speedup: float | None) -> bool:
        """Add the outcome of a forecast and return whether the alarm has gone off; `kernel` is its identity."""
        self.update(pit_valid(forecast.p_valid, valid=valid, key=kernel), "valid")
        return self.alarmed if speedup is None else self.update(pit(forecast, speedup, kernel), "speed")

    def update(self, pit: float, stream: str = "speed") -> bool:
        """Add one probability integral transform, of one of `STREAMS`, and return whether the alarm has gone off."""
        if self.alarmed:
            return True
        place = 2 * STREAMS.index(stream)
        for jumper, value in ((place, pit), (place + 1, abs(2 * pit - 1))):
            self.purses[jumper] = _bet(self.purses[jumper], value)
        self.count += 1
        if self.evidence >= 1 / self.alpha:
            self.alarmed_at = self.count
        return self.alarmed


@dataclass(slots=True)
class DriftWatch:
    """The drift alarm of a run, as a fold over its forecasts and what was measured after them.

    While more outcomes are `waiting` after an alarm, `FALLBACK` of them, forecasts must not decide. Then it is set
    again at half its rate, so that all false alarms of a run together stay below twice that of the first.
    """

    drift: Drift = field(default_factory=Drift)
    alarms: int = 0
    waiting: int = 0

    def add(self, kernel: str, forecast: Forecast, measurement: Measurement) -> None:
        """Add the outcome of a kernel, also of a timing that ended early: without slow ones, all seem too low."""
        if self.waiting:
            self.waiting -= 1
            if not self.waiting:
                self.drift = Drift(alpha=self.drift.alpha / 2)
            return
        if self.drift.observe(kernel, forecast, valid=measurement.trusted, speedup=measurement.believed):
            self.alarms += 1
            self.waiting = FALLBACK


def pit(forecast: Forecast, speedup: float, key: str) -> float:
    """Return the randomised probability integral transform of a speed-up, drawn within its bin by `key`."""
    k = bins.bin_of(speedup)
    return _inside(math.fsum(forecast.probabilities[:k]) + _draw(key) * forecast.probabilities[k])


def pit_valid(p_valid: float, *, valid: bool, key: str) -> float:
    """Return the randomised probability integral transform of the forecast that a candidate is valid."""
    v = _draw(f"valid {key}")
    return _inside(1 - p_valid + v * p_valid if valid else v * (1 - p_valid))


def _draw(key: str) -> float:
    return (int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big") + 0.5) / 2**56


def _inside(value: float) -> float:
    return min(1 - 1e-12, max(1e-12, value))


def _bet(purse: list[float], value: float) -> list[float]:
    share = _JUMP * sum(purse) / len(purse)
    return [((1 - _JUMP) * p + share) * (1 + e * (value - 0.5)) for p, e in zip(purse, _STAKES, strict=True)]
