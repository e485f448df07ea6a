"""Policy that decides which candidates are worth a measurement. `docs/searching.md` explains the formula."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forewarp.core import bins
from forewarp.core.values import Candidate, Decision, Forecast
from forewarp.search.settings import SearchSettings
from forewarp.surrogate.pooling import moments

CLUELESS = 0.9
"""Spread in octaves, without the part that all candidates share, above which forecasts count as uninformative."""

ROOM = 0.15
"""Distance, as a mean over the tunables, below which a candidate's score is lowered for being close to a pick."""

_OTHER_SOURCE = 2.0


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate to decide on, `fresh` until forecasts have: only then can a discard be audited.

    `price` is a multiple of a typical measurement. `as_written` is a seed with the choices of its author.
    """

    proposal: int
    candidate: Candidate
    forecast: Forecast | None
    fresh: bool
    price: float = 1.0
    as_written: bool = False


@dataclass(frozen=True, slots=True)
class Situation:
    """State that a decision rests on; `fallback` outcomes are wanted before forecasts are trusted again."""

    incumbent: float | None
    measured: Sequence[Candidate]
    left: int | None
    fallback: int = 0


def decide(
    options: Sequence[Option], situation: Situation, settings: SearchSettings, rng: random.Random
) -> dict[int, Decision]:
    """Return a decision per proposal id. `numbers["order"]` says in which order to measure."""
    room = len(options) if situation.left is None else situation.left
    if any(o.forecast is None for o in options):
        return _everything(options, room, "there is no forecaster: everything is measured", {})
    if situation.fallback:
        # New candidates come first, but skipped ones are open again: the same distrusted forecasts had them skipped.
        in_order = sorted(options, key=lambda o: (not o.fresh, o.proposal))
        why = "drift: outcomes do not fit the forecasts, so everything is measured"
        return _everything(in_order, min(room, situation.fallback), why, {"drift": 1.0})
    scored = {o.proposal: _numbers(o, situation) for o in options}
    quota = min(settings.measure_per_round, room)
    unexplored = settings.explore - len(situation.measured)
    # The scores of a forecaster that cannot tell candidates apart decide nothing: whole rounds are spread out then.
    exploring = unexplored > 0 and _clueless(options)
    if exploring:
        chosen = _explore(options, situation, scored, min(quota, unexplored))
    else:
        chosen = _exploit(options, scored, quota, settings.min_improvement if unexplored <= 0 else 0.0)
        discards = [o.proposal for o in options if o.fresh and o.proposal not in chosen]
        rate = min(settings.audit, settings.audit_budget * len(chosen) / max(1, len(discards)))
        for proposal in [p for p in discards if rng.random() < rate][: room - len(chosen)]:
            facts = scored[proposal] | {"discard": 1.0, "audit": 1.0, "known": 1.0}
            chosen[proposal] = Decision("measure", "audit: drawn from the discards", facts["score"], facts)
    decisions = {
        p: replace(d, numbers={**d.numbers, "order": float(place)}) for place, (p, d) in enumerate(chosen.items())
    }
    for o in (o for o in options if o.proposal not in chosen):
        score = scored[o.proposal]["score"]
        why = "others promise more" if score >= settings.min_improvement else "it promises too little"
        facts = {"discard": float(not exploring and o.fresh), "known": float(not (exploring and o.fresh))}
        decisions[o.proposal] = Decision("skip", why, score, scored[o.proposal] | facts)
    return decisions


def is_audit(decision: Decision) -> bool:
    """Return whether the candidate was discarded and drawn for an audit."""
    return bool(decision.numbers.get("audit"))


def is_discard(decision: Decision) -> bool:
    """Return whether the forecast spoke against the candidate the first time, audited or not."""
    return bool(decision.numbers.get("discard"))


def is_known(decision: Decision | None) -> bool:
    """Return whether forecasts have decided on the candidate before."""
    return decision is not None and bool(decision.numbers.get("known"))


def may_stop_early(decision: Decision) -> bool:
    """Return whether losing to the best is enough to know: not where forecasts are to learn from it."""
    return not any(decision.numbers.get(why) for why in ("explore", "drift"))


def _everything(options: Sequence[Option], room: int, why: str, facts: Mapping[str, float]) -> dict[int, Decision]:
    """Measure every candidate, in the order given, as far as the budget goes."""
    return {
        o.proposal: Decision("measure", why, 0.0, {**facts, "order": float(place)})
        if place < room
        else Decision("skip", "no further measurement is due")
        for place, o in enumerate(options)
    }


def _clueless(options: Sequence[Option]) -> bool:
    """Return whether forecasts are as wide as if nothing told these candidates apart."""
    forecasts = [o.forecast for o in options if o.forecast is not None]
    doubts = [math.sqrt(max(0.0, moments(f)[1] ** 2 - f.shared_sd_log2**2)) for f in forecasts]
    return bool(doubts) and statistics.median(doubts) > CLUELESS


def _explore(
    options: Sequence[Option], situation: Situation, scored: Mapping[int, dict[str, float]], count: int
) -> dict[int, Decision]:
    """Pick one by one what is farthest from all measured or picked, as written before the most promising."""
    spans = _spans([*(o.candidate for o in options), *situation.measured])
    near = {
        o.proposal: min((_distance(o.candidate, m, spans) for m in situation.measured), default=math.inf)
        for o in options
    }
    candidates = {o.proposal: o.candidate for o in options}
    as_written = {o.proposal for o in options if o.as_written}
    picks: dict[int, Decision] = {}
    for _ in range(min(count, len(options))):
        left = (o.proposal for o in options if o.proposal not in picks)
        chosen = max(left, key=lambda p: (near[p], p in as_written, scored[p]["score"], -p))
        # JSON has no infinity: a first pick is as far as another source.
        facts = scored[chosen] | {"explore": 1.0, "distance": min(near[chosen], _OTHER_SOURCE)}
        why = "far from what was measured" if situation.measured or picks else "nothing was measured yet"
        picks[chosen] = Decision("measure", f"explore: {why}", facts["score"], facts)
        for o in options:
            near[o.proposal] = min(near[o.proposal], _distance(o.candidate, candidates[chosen], spans))
    return picks


def _exploit(
    options: Sequence[Option], scored: Mapping[int, dict[str, float]], count: int, least: float
) -> dict[int, Decision]:
    """Pick by score of at least `least`, lowered for candidates close to a pick of the same round.

    It is 0 for the first few: a forecaster that sees nothing in any candidate would never be found out.
    """
    left = {o.proposal: o.candidate for o in options if scored[o.proposal]["score"] >= least}
    room = dict.fromkeys(left, 1.0)
    spans = _spans([o.candidate for o in options])
    picks: dict[int, Decision] = {}
    for _ in range(min(count, len(left))):
        chosen = max(left, key=lambda p: (scored[p]["score"] * room[p], -p))
        candidate, facts = left.pop(chosen), scored[chosen] | {"room": room[chosen], "known": 1.0}
        picks[chosen] = Decision("measure", "promising: high expected improvement", facts["score"], facts)
        for proposal, other in left.items():
            room[proposal] = min(room[proposal], _distance(other, candidate, spans) / ROOM)
    return picks


def _numbers(option: Option, situation: Situation) -> dict[str, float]:
    forecast = option.forecast
    if forecast is None:
        raise ValueError("an option without a forecast has no score")
    incumbent = situation.incumbent or 1.0
    gain = improvement(forecast, incumbent)
    return {
        "incumbent": incumbent,
        "p_valid": forecast.p_valid,
        "gain": gain,
        "unsure": moments(forecast)[1],
        "price": option.price,
        "score": forecast.p_valid * gain / option.price,
    }


def improvement(forecast: Forecast, incumbent: float) -> float:
    """Return E[max(0, log2 S − log2 incumbent)] of a valid candidate, in octaves."""
    if forecast.mean_log2 is not None and forecast.sd_log2 is not None:
        return bins.normal_improvement(forecast.mean_log2, forecast.sd_log2, incumbent)
    return bins.expected_improvement(forecast.probabilities, incumbent)


def _spans(candidates: Sequence[Candidate]) -> dict[str, float]:
    """Return the width of each tunable's range, in log2, since most of them are powers of two."""
    values: dict[str, list[float]] = {}
    for c in candidates:
        for name, value in c.tunables.items():
            values.setdefault(name, []).append(_scale(value))
    return {name: max(v) - min(v) for name, v in values.items()}


def _scale(value: int) -> float:
    return math.copysign(math.log2(1 + abs(value)), value)


def _distance(a: Candidate, b: Candidate, spans: Mapping[str, float]) -> float:
    """Return the mean distance over the tunables, 0 to 1; candidates of different sources are farther than any."""
    if a.source != b.source:
        return _OTHER_SOURCE
    steps = [
        abs(_scale(value) - _scale(b.tunables.get(name, value))) / (spans[name] or 1.0)
        for name, value in a.tunables.items()
    ]
    return sum(steps) / len(steps) if steps else 0.0
