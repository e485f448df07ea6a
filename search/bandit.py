"""Bandit that chooses which kind of change to try next: by the gain for the cost so far, and how sure that is.

Discounted upper confidence bounds (Garivier and Moulines, "On upper-confidence bound policies for switching bandit
problems", ALT 2011), divided by cost as in budgeted bandits (Ding et al., "Multi-armed bandit with budget constraint
and variable costs", AAAI 2013). ShinkaEvolve (arXiv 2509.19349) chooses its models in a like way.

    index = (r̄ / R + κ · √(ln(1 + N) / n)) / (h + c̄ / C)

    r̄   mean of the rewards of the arm's pulls, each weighted by γ to the power of how many pulls came after it
    c̄   the same of their costs; of an arm that nobody knows the cost of, the mean over all pulls
    R, C the highest r̄ and the highest c̄ of any arm
    n, N the sum of those weights for the arm, and for all arms
    h    what a candidate costs whoever made it (compiling, forecasting), as a share of the dearest arm's cost

An arm's n shrinks while others are pulled, so that its bonus grows without bound: an arm that only fails is starved,
but never for good.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from forewarp.core.protocols import Attempt
from forewarp.core.values import Cost

DECAY = 0.95
BONUS = 0.5
HANDLING = 0.1
FORECAST_WORTH = 0.5
"""Weight of an octave that was only forecast, against one that was measured."""


@dataclass(frozen=True, slots=True)
class Pull:
    """One use of an arm: octaves gained, and what it cost, in one currency for all pulls."""

    arm: str
    reward: float
    cost: float = 0.0


def pulls_of(
    attempts: Sequence[Attempt], arm_of: Callable[[Attempt], str], base_of: Callable[[Attempt], float | None]
) -> list[Pull]:
    """Return the attempts that have an arm as pulls, in order.

    The reward is max(0, log2 S − log2 of what it began from), which `base_of` gives, else the fastest so far, or 1.
    What passed the gate unmeasured gets p_valid · max(0, the same of its forecast's median) at half its worth; what
    failed none.
    """
    made: list[tuple[str, float, Cost]] = []
    incumbent = 1.0
    for a in attempts:
        arm = arm_of(a)
        if arm:
            made.append((arm, _reward(a, base_of(a) or incumbent), a.proposal.cost))
        if a.measurement is not None:
            incumbent = max(incumbent, a.measurement.believed or 0.0)
    price = _currency([cost for _, _, cost in made])
    return [Pull(arm, reward, price(cost)) for arm, reward, cost in made]


def choose(
    arms: Sequence[str], pulls: Sequence[Pull], count: int, rng: random.Random, *, handling: float = HANDLING
) -> list[str]:
    """Return `count` arms to pull at once, those never pulled first; equals are told apart by `rng` alone.

    Each choice counts for those after it as a pull that brings what its arm brought so far.
    """
    order = rng.sample(list(arms), len(arms))
    weight, reward, cost = (dict.fromkeys(order, 0.0) for _ in range(3))

    def add(pull: Pull) -> None:
        for sums, value in ((weight, 1.0), (reward, pull.reward), (cost, pull.cost)):
            for arm in sums:
                sums[arm] *= DECAY
            sums[pull.arm] += value

    for pull in pulls:
        if pull.arm in weight:
            add(pull)
    whole = sum(weight.values())
    usual = sum(cost.values()) / whole if whole else 0.0
    rewards = {a: reward[a] / w if w else 0.0 for a, w in weight.items()}
    costs = {a: cost[a] / w if w else usual for a, w in weight.items()}
    highest, dearest = max(rewards.values(), default=0.0) or 1.0, max(costs.values(), default=0.0) or 1.0

    def index(arm: str) -> float:
        if not weight[arm]:
            return math.inf
        doubt = BONUS * math.sqrt(math.log(1 + sum(weight.values())) / weight[arm])
        return (rewards[arm] / highest + doubt) / (handling + costs[arm] / dearest)

    chosen: list[str] = []
    while order and len(chosen) < count:
        chosen.append(max(order, key=index))
        add(Pull(chosen[-1], rewards[chosen[-1]], costs[chosen[-1]]))
    return chosen


def _reward(attempt: Attempt, base: float) -> float:
    m = attempt.measurement
    if m is not None:
        return max(0.0, math.log2(m.believed / base)) if m.believed else 0.0
    forecast = attempt.forecast
    if attempt.outcome == "passed" and forecast is not None:
        return FORECAST_WORTH * forecast.p_valid * max(0.0, math.log2(forecast.median / base))
    return 0.0


def _currency(costs: Sequence[Cost]) -> Callable[[Cost], float]:
    """Return the function that gives a cost in one currency: dollars where all are known, else tokens, else seconds."""
    if all(c.dollars is not None for c in costs) and any(c.dollars for c in costs):
        return lambda c: c.dollars or 0.0
    if any(c.input_tokens + c.output_tokens for c in costs):
        return lambda c: float(c.input_tokens + c.output_tokens)
    return lambda c: c.seconds
