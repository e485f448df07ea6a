"""Questions to a forecaster, also to one that a user wrote: what is no forecast is turned down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from forewarp.core.errors import UsageError
from forewarp.core.protocols import Forecaster, Subject, Trial
from forewarp.core.values import Forecast, Target, Task


def ask(
    forecaster: Forecaster, task: Task, target: Target, subjects: Sequence[Subject], history: Sequence[Trial]
) -> list[Forecast]:
    """Return one forecast per subject, in order; raises `UsageError` if the forecaster gives something else."""
    made = cast("Any", forecaster.forecast(task, target, subjects, history))
    if not isinstance(made, list | tuple):
        given = f"a {type(made).__name__}"
    elif strange := [f for f in cast("Sequence[Any]", made) if not isinstance(f, Forecast)]:
        given = f"a {type(strange[0]).__name__} among its forecasts"
    elif len(made) != len(subjects):
        given = f"{len(made)} forecasts where {len(subjects)} were asked for"
    else:
        return list(made)
    raise UsageError(
        f"the forecaster {forecaster.name} gave {given}",
        hint="its forecast() has to return a list with a forewarp.Forecast for each candidate, in their order",
    )
