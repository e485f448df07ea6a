from typing import Any

import pytest
from contracts.forecaster_contract import TARGET, TASK, failed, measured, source, subject
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from support import synthetic_executor as synthetic

from forewarp.archive.store import Archive
from forewarp.core import bins
from forewarp.core.budget import Budget
from forewarp.core.protocols import Attempt, Known, Proposal, Trial
from forewarp.core.values import Forecast, KernelPlan, RatedPlan
from forewarp.search.loop import Search
from forewarp.search.proposers.llm import KernelWriter
from forewarp.search.proposers.operators import LATER, MENDING, Directive
from forewarp.search.proposers.past import Past
from forewarp.search.proposers.plans import Planner
from forewarp.search.proposers.portfolio import Portfolio
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.surrogate.models import resolve
from forewarp.surrogate.plans import PlanForecaster


class Author:
    """A model that plans, rates and writes by what it is asked for: each plan's text says what it will be rated.

    Plans of the nth request are called by `medians[n]`; a request that stands in `silent` gets an error.
    """

    def __init__(self, *medians: list[float], silent: str = "") -> None:
        self.medians, self.silent = list(medians), silent
        self.asked: dict[str, list[str]] = {"plans": [], "forecasts": [], "source": []}

    def __call__(self, messages: Any, info: Any) -> ModelResponse:
        text = "\n".join(str(p.content) for p in messages[-1].parts)
        (tool,) = info.output_tools
        kind = next(k for k in self.asked if k in tool.parameters_json_schema["properties"])
        self.asked[kind].append(text)
        if kind == self.silent:
            raise ModelHTTPError(503, "m")
        return ModelResponse(parts=[ToolCallPart(tool.name, getattr(self, kind)(text))])

    def plans(self, text: str) -> dict[str, Any]:
        medians = self.medians[len(self.asked["plans"]) - 1]
        return {"plans": [{"change": f"reach {m}", "effect": "12x faster", "risk": "none"} for m in medians]}

    def forecasts(self, text: str) -> dict[str, Any]:
        said = [float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith("- change: ")]
        return {"analysis": "", "forecasts": [rating(f"c{i}", median) for i, median in enumerate(said, 1)]}

    def source(self, text: str) -> dict[str, Any]:
        number = len(self.asked["source"])
        return {"idea": f"write {number}", "language": "cpp", "source": source(f"f{number}();")}


def rating(name: str, median: float) -> dict[str, Any]:
    p = [0.0] * bins.COUNT
    p[bins.bin_of(median)] = 1.0
    return {"candidate": name, "rationale": "so", "median": median, "p": p, "p_valid": 0.9}


def write(author: Author, known: Known, *directives: Directive, plans: int = 2) -> list[Proposal]:
    model = resolve(FunctionModel(author))
    writer = KernelWriter(model, planner=Planner(PlanForecaster(model), plans))
    return writer.write(Past(TASK, TARGET, known), directives)


TILING = Directive(next(o for o in LATER if o.name == "tiling"), Attempt(Proposal(subject().candidate, "")))


def test_the_plans_that_promise_most_are_written_wherever_they_come_from() -> None:
    author = Author([1.1, 0.5], [3.0, 1.6])
    made = write(author, Known(), TILING, TILING)
    assert [p.plan.plan.change for p in made if p.plan] == ["reach 3.0", "reach 1.6"]
    first = "Carry out this plan:\n\n- change: reach 3.0"
    assert sorted(first in text for text in author.asked["source"]) == [False, True]  # both are asked for at once
    assert all("Do not write it yet. Give 2 short plans" in text for text in author.asked["plans"])
    assert [round(p.plan.forecast.median, 6) for p in made if p.plan] == [3.0, 1.6]


def test_choosing_is_paid_for_by_what_is_written() -> None:
    planned, plain = Author([1.1, 3.0]), Author()
    (with_plans,) = write(planned, Known(), TILING)
    (without,) = KernelWriter(FunctionModel(plain)).write(Past(TASK, TARGET, Known()), [TILING])
    assert with_plans.cost.output_tokens > without.cost.output_tokens
    assert without.plan is None


def test_a_repair_needs_no_plan() -> None:
    broken = Attempt(Proposal(subject().candidate, ""), measurement=failed())
    author = Author()
    (made,) = write(author, Known(), Directive(MENDING, broken))
    assert made.plan is None
    assert author.asked["plans"] == []


def test_without_plans_kernels_are_written_all_the_same() -> None:
    author = Author([], silent="plans")
    (made,) = write(author, Known(), TILING)
    assert made.plan is None


def test_plans_that_nobody_rates_are_written_in_their_order() -> None:
    author = Author([1.1, 3.0], silent="forecasts")
    (made,) = write(author, Known(), TILING)
    assert made.plan is not None
    assert made.plan.plan.change == "reach 1.1"
    assert made.plan.forecast.raw_sum == 0.0


def test_more_plans_than_were_asked_for_do_not_count() -> None:
    (made,) = write(Author([1.1, 1.2, 9.0]), Known(), TILING)
    assert made.plan is not None
    assert made.plan.plan.change == "reach 1.2"


def test_the_forecaster_sees_what_came_of_earlier_plans_and_the_program_to_change() -> None:
    def earlier(change: str, median: float, result: Any) -> Attempt:
        rated = RatedPlan(KernelPlan(change, "", ""), Forecast(bins.from_normal(median, 0.5), 0.8, "plans"))
        return Attempt(Proposal(subject(16).candidate, "llm", plan=rated), measurement=result)

    attempts = (earlier("stage the rows", 1.0, measured(1.25)), earlier("use half precision", 0.0, failed()))
    author = Author([1.1])
    begin = Attempt(TILING.begin.proposal, measurement=measured(1.5)) if TILING.begin else None
    write(author, Known(attempts, (Trial(subject(16), measured(1.25)),)), Directive(TILING.operator, begin), plans=1)
    (text,) = author.asked["forecasts"]
    assert "stage the rows: forecast S = 2.00" in text
    assert "measured S = 1.250" in text
    assert "use half precision" in text
    assert "not valid: incorrect" in text
    assert "Measured: S = 1.500" in text
    assert "y[i] = 2 * x[i];" in text


def test_a_run_keeps_plans_with_their_forecasts_and_goes_on_from_them() -> None:
    class Working(Author):
        def plans(self, text: str) -> dict[str, Any]:
            self.medians.append([1.5, 2.5])
            return super().plans(text)

        def source(self, text: str) -> dict[str, Any]:
            body = synthetic.SOURCE.replace("y[0] =", f"y[0] = {len(self.asked['source'])} +")
            return {"idea": "write", "language": "cpp", "source": body, "edits": []}

    author = Working()
    model = resolve(FunctionModel(author))
    writer = KernelWriter(model, planner=Planner(PlanForecaster(model), 2))
    settings = SearchSettings(budget=Budget(measurements=9), proposals_per_round=3, confirm=False, holdout=False)
    with Archive(":memory:") as archive:
        proposer = Portfolio([writer], TunablesProposer())
        executor = synthetic.SyntheticExecutor()
        search = Search.start(archive, synthetic.task(), executor, proposer, None, settings)
        search.run()
        kept = archive.plans()
    assert kept
    assert {o.rated.plan.change for o in kept} == {"reach 2.5"}
    assert all(o.rated.forecast.median == pytest.approx(2.5) for o in kept)
    assert any("Earlier plans of this run" in text for text in author.asked["forecasts"])


def test_as_many_are_written_as_were_asked_for() -> None:
    assert len(write(Author(*[[1.2, 1.3]] * 3), Known(), *[TILING] * 3)) == 3
