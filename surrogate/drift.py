"""An alarm for measured outcomes that no longer look like the forecasts: a test martingale, valid at any time.

Under calibrated forecasts the probability integral transforms of the outcomes are uniform, each given those before it.
A gambler who bets against that starts with 1 and, by Ville's inequality, ever holds 1/α with probability at most α. The
bets are those of the simple jumper (Vovk, Petej, Nouretdinov, Ahlberg, Carlsson, Gammerman 2021): 1 + ε·(u − ½), with
a little money moved between the ε at each step so that a change late in a run is noticed, too. One jumper bets on u
itself (forecasts too high or too low), one on |2u − 1| (too sure or too doubtful), for each stream of outcomes; the
money of all is averaged.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ALPHA = 0.01
"""Probability of a false alarm in a whole run, however long, at most."""

STREAMS = ("speed", "valid")

_STAKES = (-2.0, -1.0, 0.0, 1.0, 2.0)
_JUMP = 0.02


def _purse() -> list[float]:
    return [1 / len(_STAKES)] * len(_STAKES)


@dataclass(slots=True)
class Drift:
    """The alarm's state: plain numbers, which `core.serde` stores and restores.

    `purses` holds what each jumper has on each stake, two jumpers per stream. Once raised, the alarm stays.
    """

    alpha: float = ALPHA
    count: int = 0
    alarmed_at: int | None = None
    purses: list[list[float]] = field(default_factory=lambda: [_purse() for _ in range(2 * len(STREAMS))])

    @property
    def evidence(self) -> float:
        """Value of the test martingale, which starts at 1; the alarm goes off at 1/alpha."""
        return sum(sum(p) for p in self.purses) / len(self.purses)

    @property
    def alarmed(self) -> bool:
        """True once the alarm has gone off."""
        return self.alarmed_at is not None

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


def _bet(purse: list[float], value: float) -> list[float]:
    share = _JUMP * sum(purse) / len(purse)
    return [((1 - _JUMP) * p + share) * (1 + e * (value - 0.5)) for p, e in zip(purse, _STAKES, strict=True)]
