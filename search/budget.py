"""Budget against ledger: what is left, and when to warn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from forewarp.core.values import Budget, Spend

CURRENCIES = ("measurements", "device_s", "dollars", "tokens", "wall_s")
WARN_AT = (0.5, 0.8)
"""Shares of a cap at which a run warns, in rising order."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """One currency of which at least `share`, one of `WARN_AT`, is spent."""

    currency: str
    spent: float
    cap: float
    share: float


def warnings(budget: Budget, spend: Spend) -> Iterator[Shortage]:
    """Yield every capped currency of which a share of `WARN_AT` is spent, with the highest such share."""
    for currency in CURRENCIES:
        cap, spent = getattr(budget, currency), getattr(spend, currency)
        passed = [share for share in WARN_AT if cap and spent >= share * cap]
        if passed:
            yield Shortage(currency, spent, cap, passed[-1])


def searching(budget: Budget, spend: Spend, *, each_s: float, confirm: bool, visitors: int = 0) -> Budget:
    """Return the part of the budget that is not kept back for the confirmation and for other targets' winners.

    `each_s` is what measuring one of them takes of the device. It takes no more wall time than a measurement has taken
    so far, with all that belongs to it. A budget of one measurement has nothing to keep back: its only candidate is not
    confirmed.
    """
    kept = confirm + visitors
    each_wall_s = min(each_s, spend.wall_s / max(1, spend.measurements))
    most = budget.measurements
    return replace(
        budget,
        measurements=None if most is None else max(min(1, most), most - kept),
        device_s=None if budget.device_s is None else budget.device_s - kept * each_s,
        wall_s=None if budget.wall_s is None else budget.wall_s - kept * each_wall_s,
    )


def measurements_left(budget: Budget, spend: Spend) -> int | None:
    """Return how many measurements the cap still allows; None without a cap."""
    return None if budget.measurements is None else max(0, budget.measurements - spend.measurements)


def in_words(currency: str, budget: Budget, spend: Spend) -> str:
    """Return why the run ended, for people, with the measurements that it kept back for its end and did not use."""
    cap = getattr(budget, currency)
    units = {
        "measurements": f"{cap} measurements",
        "device_s": f"{cap:g} s of device time" if cap is not None else "",
        "dollars": f"{cap:g} dollars" if cap is not None else "",
        "tokens": f"{cap} tokens",
        "wall_s": f"{cap:g} s of wall time" if cap is not None else "",
    }
    said = f"the budget of {units[currency]} is spent"
    left = measurements_left(budget, spend) if currency == "measurements" else 0
    return f"{said}, except {left} kept back for the end and not used" if left else said
