"""Budgets: caps and spent amounts of five currencies, for searches, conversations, MCP clients and every face.

Flags and JSON fields of faces may have names of their own, such as `--max-gpu-seconds`; the units are these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, cast

Currency = Literal["measurements", "device_s", "dollars", "tokens", "wall_s"]

CURRENCIES: tuple[Currency, ...] = ("measurements", "device_s", "dollars", "tokens", "wall_s")
UNITS: Mapping[str, str] = {
    "measurements": "measurements",
    "device_s": "s of device time",
    "dollars": "dollars",
    "tokens": "tokens",
    "wall_s": "s of wall time",
}
"""What follows an amount of each currency, for people."""

DEFAULT_MEASUREMENTS = 24
"""Measurements that a search or a conversation may make where nobody caps them."""

WARN_AT = (0.5, 0.8)
"""Shares of a cap at which a run warns, in rising order."""


@dataclass(frozen=True, slots=True)
class Spend:
    """Amount of each currency that is spent, or set aside."""

    measurements: int = 0
    device_s: float = 0.0
    dollars: float = 0.0
    tokens: int = 0
    wall_s: float = 0.0

    def of(self, currency: str) -> float:
        return cast("float", getattr(self, currency))

    def __add__(self, other: Spend) -> Spend:
        return Spend(*(getattr(self, c) + getattr(other, c) for c in CURRENCIES))

    def __or__(self, other: Spend) -> Spend:
        """Return the larger amount of each currency."""
        return Spend(*(max(getattr(self, c), getattr(other, c)) for c in CURRENCIES))


@dataclass(frozen=True, slots=True)
class Budget:
    """Cap on each currency; None leaves that currency open."""

    measurements: int | None = None
    device_s: float | None = None
    dollars: float | None = None
    tokens: int | None = None
    wall_s: float | None = None

    @property
    def caps(self) -> dict[Currency, float]:
        """The capped currencies with their caps."""
        return {c: cast("float", getattr(self, c)) for c in CURRENCIES if getattr(self, c) is not None}

    def whole(self) -> Spend:
        """Return the amounts that use up every cap."""
        return Spend(*(getattr(self, c) or 0 for c in CURRENCIES))

    def exhausted(self, spend: Spend) -> Currency | None:
        """Return the name of the first currency that is used up, or None."""
        return next((c for c, cap in self.caps.items() if spend.of(c) >= cap), None)

    def left(self, currency: Currency, spend: Spend) -> float | None:
        """Return what the cap still allows, never below zero; None without a cap."""
        cap = self.caps.get(currency)
        return None if cap is None else max(0, cap - spend.of(currency))

    def spent_words(self, currency: str) -> str:
        cap = cast("float", getattr(self, currency))
        return f"the budget of {cap if isinstance(cap, int) else f'{cap:g}'} {UNITS[currency]} is spent"


OPEN = Budget()
"""The budget without a cap."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """One currency of which at least `share`, one of `WARN_AT`, is spent."""

    currency: str
    spent: float
    cap: float
    share: float


def warnings(budget: Budget, spend: Spend) -> Iterator[Shortage]:
    """Yield every capped currency of which a share of `WARN_AT` is spent, with the highest such share."""
    for currency, cap in budget.caps.items():
        spent = spend.of(currency)
        passed = [share for share in WARN_AT if cap and spent >= share * cap]
        if passed:
            yield Shortage(currency, spent, cap, passed[-1])
