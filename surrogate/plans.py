"""Forecasts of kernels that are not written yet: a language model rates short plans for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from forewarp.core.errors import ModelError
from forewarp.core.protocols import Attempt, Known
from forewarp.core.untrusted_text import clip
from forewarp.core.values import Cost, Forecast, KernelPlan, Target, Task
from forewarp.prompts.render import render
from forewarp.surrogate import replies
from forewarp.surrogate.listing import FENCES, listing
from forewarp.surrogate.models import LanguageModel
from forewarp.surrogate.questions import Shown, name_of, system_prompt, task_part
from forewarp.surrogate.reference import ReferenceTime
from forewarp.surrogate.replies import SpeedupForecasts

TOLD = 12
"""Earlier plans of a run that a prompt shows with what came of them."""

_SOURCE = 8_000


class PlanForecaster:
    """Asks a language model what kernels will come of plans, showing what came of the run's earlier ones."""

    def __init__(self, model: LanguageModel, references: Mapping[str, ReferenceTime] | None = None) -> None:
        self.name = f"plans:{model.label}"
        self._model, self._shown = model, Shown(references=references or {})

    def forecast(
        self, task: Task, target: Target, known: Known, groups: Sequence[tuple[Attempt | None, Sequence[KernelPlan]]]
    ) -> tuple[list[list[Forecast]], Cost]:
        """Return forecasts by group of plans with one beginning, unread ones uniform, and their cost."""
        shared = task_part(task, target, known.trials, self._shown)
        outcomes = [_outcome(a) for a in known.attempts if a.proposal.plan and a.measurement][-TOLD:]
        asked = [f"{shared}\n{_own(begin, plans, outcomes)}" for begin, plans in groups]
        answers = self._model.ask(
            system_prompt(),
            asked,
            SpeedupForecasts,
            check=lambda reply, place: replies.checked(reply, len(groups[place][1])),
            retries=1,
        )
        found: list[list[Forecast]] = []
        cost = Cost()
        for answer, (_, plans) in zip(answers, groups, strict=True):
            value, problem = None, str(answer) if isinstance(answer, ModelError) else answer.problem
            if not isinstance(answer, ModelError):
                value, cost = answer.value, cost + answer.cost
            said = [replies.about(value, place)[:1] if value else [] for place in range(len(plans))]
            found.append([replies.pooled(each, self.name, problem or "it leaves out this plan") for each in said])
        return found, cost


def _own(begin: Attempt | None, plans: Sequence[KernelPlan], outcomes: Sequence[Mapping[str, object]]) -> str:
    candidate = begin.proposal.candidate if begin else None
    measured = begin.measurement if begin else None
    return render(
        "forecast_plans.j2",
        start=clip(listing(candidate).code, _SOURCE) if candidate else "",
        fence=FENCES[candidate.language] if candidate else "",
        tunables=dict(candidate.tunables) if candidate else {},
        speedup=measured.believed if measured else None,
        failed=measured is not None and not measured.trusted,
        outcomes=outcomes,
        plans=[{"name": name_of(place), "plan": plan} for place, plan in enumerate(plans)],
    )


def _outcome(attempt: Attempt) -> Mapping[str, object]:
    rated, m = attempt.proposal.plan, attempt.measurement
    assert rated is not None
    assert m is not None
    return {
        "change": rated.plan.change,
        "forecast": rated.forecast,
        "speedup": m.believed,
        "status": m.status if m.status != "ok" else m.verdict,
    }
