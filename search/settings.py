"""The settings of a run. They are stored with it, so that a resumed run goes on under the same ones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from forewarp.core import serde
from forewarp.core.budget import DEFAULT_MEASUREMENTS, Budget
from forewarp.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Settings of a run.

    Attributes:
        seed: Two runs with the same seed, proposer and forecaster make the same choices.
        budget: Caps; at least one must be set.
        proposals_per_round: How many new candidates are asked for in each round.
        measure_per_round: How many the policy picks per round, audits not counted. Without a forecaster every
            candidate that passes the gate is measured.
        audit: Share of the forecaster's discards that is measured all the same, drawn at random.
        audit_budget: Measurements spent on audits per measurement spent on picks, at most and on average; where many
            candidates are discarded per pick, it lowers the share of discards that is audited.
        explore: How many measurements are spread over the space before forecasts decide, as long as these know nothing.
        reconsider: How many candidates skipped earlier are decided on again in each round, with a new forecast where
            forecasts are free; 0 makes each skip final.
        min_improvement: Octaves of expected improvement that a candidate must promise to be measured, once there are
            `explore` measurements.
        patience: After how many rounds in a row without such a candidate the run ends; 0 is never.
        reach: Share of what the device allows at most (its roofline floor, where that is known) at which the run ends.
        early_stop: End the timing of a candidate that can hardly beat the best one any more.
        confirm: Keep one measurement back and spend it on measuring the best candidate again at the end.
        holdout: Try the best programs on shapes near the given ones, too, and prefer one that is right there.
        compile_threads: How many candidates compile at once.
        plans: How many short plans a model that writes is asked for per program, for a forecaster to choose from; 0 is
            none.
        proposer: How the caller names what it passed as proposer; filled with its name where left empty.
        forecaster: The same for the forecaster; "" when there is none.
    """

    seed: int = 0
    budget: Budget = field(default_factory=lambda: Budget(DEFAULT_MEASUREMENTS))
    proposals_per_round: int = 8
    measure_per_round: int = 1
    audit: float = 0.05
    audit_budget: float = 0.1
    explore: int = 3
    reconsider: int = 64
    min_improvement: float = 0.003
    patience: int = 6
    reach: float = 0.97
    early_stop: bool = True
    confirm: bool = True
    holdout: bool = True
    compile_threads: int = field(default_factory=lambda: min(16, os.cpu_count() or 1))
    plans: int = 0
    proposer: str = ""
    forecaster: str = ""

    def check(self) -> None:
        """Raise `UsageError` that names the first setting which makes no sense."""
        if not self.budget.caps:
            raise UsageError("the budget has no cap", hint="cap at least one of measurements, seconds, dollars, tokens")
        for name in ("proposals_per_round", "measure_per_round", "compile_threads"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in ("explore", "reconsider", "audit_budget", "min_improvement", "patience", "plans"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} is {getattr(self, name)}; it must not be negative")
        if not 0 <= self.audit <= 1:
            raise UsageError(f"audit is {self.audit}; it is a share between 0 and 1")
        if not 0 < self.reach <= 1:
            raise UsageError(f"reach is {self.reach}; it is a share above 0, and 1 at most")


def stored(data: Mapping[str, Any]) -> SearchSettings:
    """Return the settings that a run was stored with; `min_improvement` was called `effort` once."""
    return serde.from_data(SearchSettings, {"min_improvement": data["effort"], **data} if "effort" in data else data)
