"""Plans before kernels: a model proposes short plans, a forecaster rates them, and the best are written.

Writing a kernel takes thousands of tokens, a plan some fifty.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field

from forewarp.core.errors import ModelError
from forewarp.core.values import Cost, KernelPlan, RatedPlan
from forewarp.prompts.render import render
from forewarp.search.policy import improvement
from forewarp.search.proposers.context import prompt
from forewarp.search.proposers.operators import MENDING, Directive
from forewarp.search.proposers.past import Past
from forewarp.surrogate.models import LanguageModel
from forewarp.surrogate.plans import PlanForecaster


class PlanReply(BaseModel):
    """One plan of a reply."""

    change: str = Field(description="what the kernel does differently, concretely; one or two sentences")
    effect: str = Field(description="what that saves, in bytes, operations, launches or latency, and about how much")
    risk: str = Field(description="what may make it wrong, slower or not compile")


class PlanReplies(BaseModel):
    """The reply that is asked for before anything is written."""

    plans: list[PlanReply] = Field(description="the plans, each unlike the others")


class Planner:
    """Asks for `count` plans a request, and keeps as many of all as there are requests: those that promise most."""

    def __init__(self, forecaster: PlanForecaster, count: int) -> None:
        self._forecaster, self._count = forecaster, count

    def choose(
        self, model: LanguageModel, past: Past, directives: Sequence[Directive]
    ) -> tuple[list[tuple[Directive, RatedPlan | None]], Cost]:
        """Return the requests with the best plans to write, repairs without, and what choosing cost."""
        open_to_plans = [d for d in directives if d.operator is not MENDING]
        rest = [(d, None) for d in directives if d.operator is MENDING]
        if not open_to_plans:
            return list(rest), Cost()
        answers = model.ask(
            render("propose_system.j2", languages=past.languages),
            [prompt(past, d, edits=False, plans=self._count) for d in open_to_plans],
            PlanReplies,
            check=lambda reply, place: reply,
            retries=1,
        )
        cost, groups = Cost(), list[tuple[Directive, list[KernelPlan]]]()
        for directive, answer in zip(open_to_plans, answers, strict=True):
            if not isinstance(answer, ModelError):
                cost += answer.cost
                made = answer.value.plans[: self._count] if answer.value else []
                groups += [(directive, [KernelPlan(p.change, p.effect, p.risk) for p in made])] if made else []
        if not groups:
            return [(d, None) for d in directives], cost
        asked = [(d.begin, plans) for d, plans in groups]
        forecasts, rating = self._forecaster.forecast(past.task, past.target, past.known, asked)
        best = past.attempt(past.working[0]).measurement if past.working else None
        incumbent = (best.speedup if best else None) or 1.0
        rated = [
            (directive, RatedPlan(plan, forecast))
            for (directive, plans), each in zip(groups, forecasts, strict=True)
            for plan, forecast in zip(plans, each, strict=True)
        ]
        rated.sort(key=lambda pair: -pair[1].forecast.p_valid * improvement(pair[1].forecast, incumbent))
        return [*rest, *rated[: len(open_to_plans)]], cost + rating
