"""Events about a forecaster's tiers in a round: which tiers were asked, and which had no usable answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forewarp.core.protocols import Forecaster
from forewarp.core.values import Cost, Forecast
from forewarp.search.events import Escalated, Event, Unanswered
from forewarp.surrogate.cascade import CascadeForecaster, TierCount


def counts(forecaster: Forecaster) -> dict[str, TierCount]:
    """Return the counts of each tier of a cascade so far, by label; nothing for another forecaster."""
    return forecaster.counts if isinstance(forecaster, CascadeForecaster) else {}


def escalated(run: str, number: int, made: Sequence[Forecast]) -> list[Event]:
    """Return events for the questions to each tier above the first; remembered answers are free and do not count."""
    asked: dict[str, list[Cost]] = {}
    for forecast in made:
        for answer in forecast.tiers[1:]:
            if answer.cost != Cost():
                asked.setdefault(answer.forecaster, []).append(answer.cost)
    return [Escalated(run, number, tier, len(costs), sum(costs, Cost())) for tier, costs in asked.items()]


def unanswered(
    run: str, number: int, made: Sequence[Forecast], before: Mapping[str, TierCount], after: Mapping[str, TierCount]
) -> list[Event]:
    """Return events for forecasters that failed in this round, or whose new answers were malformed (`raw_sum` 0)."""
    found: list[Event] = []
    for label, count in after.items():
        if failed := count.failed - before[label].failed:
            found.append(Unanswered(run, number, label, failed, count.problem))
    malformed: dict[str, list[str]] = {}
    for answer in (a for f in made for a in f.tiers or (f,)):
        if answer.raw_sum <= 0 and answer.cost != Cost():
            malformed.setdefault(answer.forecaster, []).append(answer.rationale)
    return found + [Unanswered(run, number, name, len(notes), notes[0]) for name, notes in malformed.items()]
