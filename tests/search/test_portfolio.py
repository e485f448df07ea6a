from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from contracts.forecaster_contract import TARGET, measured, source, subject
from contracts.forecaster_contract import TASK as BARE
from contracts.proposer_contract import ProposerContract
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from forewarp.core.errors import ModelError
from forewarp.core.protocols import Attempt, Known, Proposal, Proposer, Trial
from forewarp.core.values import Build, Candidate, Cost, Target, Task
from forewarp.search.proposers.llm import KernelWriter
from forewarp.search.proposers.portfolio import Portfolio
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.surrogate.models import LanguageModel

TASK = replace(BARE, seeds=(Candidate(source(), "cpp"),), family="scaling")


def writer(label: str = "m", fails: bool = False, mute: bool = False) -> KernelWriter:
    numbers = itertools.count()

    def reply(messages: Any, info: Any) -> ModelResponse:
        if fails:
            raise ModelHTTPError(429, label)
        if mute:
            return ModelResponse(parts=[TextPart("no")])
        written = {"idea": "i", "language": "cpp", "source": source(f"{label}{next(numbers)}();")}
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, written)])

    return KernelWriter(LanguageModel(FunctionModel(reply), label))


def names(made: list[Proposal]) -> list[str]:
    return [p.proposer for p in made]


def propose(portfolio: Portfolio, count: int = 8, known: Known | None = None, number: int = 0) -> list[Proposal]:
    return portfolio.propose(TASK, TARGET, known or Known(), count, random.Random(number))


def test_models_have_four_places_of_the_first_round_and_tunables_the_rest() -> None:
    made = propose(Portfolio([writer()], TunablesProposer()))
    assert names(made) == ["llm:m"] * 4 + ["tunables"] * 4
    assert len({p.candidate.sha256 for p in made}) == 8
    assert names(propose(Portfolio([writer()], TunablesProposer(), max_calls=1), 3)) == ["llm:m"] + ["tunables"] * 2


def test_every_model_is_tried() -> None:
    made = propose(Portfolio([writer("m"), writer("n")], TunablesProposer()))
    assert {"llm:m", "llm:n"} <= set(names(made))


def test_a_model_that_is_away_does_not_stop_the_others() -> None:
    made = propose(Portfolio([writer("m", fails=True), writer("n")], TunablesProposer()))
    assert set(names(made)) == {"llm:n", "tunables"}
    with pytest.raises(ModelError):
        propose(Portfolio([writer("m", fails=True)], TunablesProposer()))


def attempt(name: str, number: int, speedup: float, cost: float) -> Attempt:
    candidate = subject(64, f"{name}{number}();").candidate
    operator = "neighbour" if name == "tunables" else "tiling"
    made = Proposal(candidate, name, cost=Cost(dollars=cost), operator=operator)
    return Attempt(made, "passed", "", Build("ok", 0.1), None, measured(speedup))


def known(*attempts: Attempt) -> Known:
    return Known(attempts, [], frozenset(a.proposal.candidate.sha256 for a in attempts))


def test_places_go_to_what_gains() -> None:
    gaining = [attempt("llm:n" if i % 2 else "llm:m", i, 1.2**i if i % 2 else 0.5, 0.01) for i in range(16)]
    counts = [
        names(propose(Portfolio([writer("m"), writer("n")], TunablesProposer()), 8, known(*gaining), n))
        for n in range(6)
    ]
    assert sum(c.count("llm:n") for c in counts) > 2 * sum(c.count("llm:m") for c in counts)


def test_writing_gives_way_to_tuning_where_only_that_gains() -> None:
    run = [
        attempt("tunables" if i % 2 else "llm:m", i, 1.2**i if i % 2 else 0.5, 0.0 if i % 2 else 0.01)
        for i in range(20)
    ]
    made = propose(Portfolio([writer()], TunablesProposer()), 8, known(*run))
    assert names(made).count("llm:m") <= 2


def test_a_model_that_says_nothing_is_asked_less() -> None:
    portfolio = Portfolio([writer("m", mute=True), writer("n")], TunablesProposer())
    run = [attempt("llm:n", i, 1.1**i, 0.0) for i in range(4)]
    for number in range(4):
        propose(portfolio, 4, known(*run), number)
    assert names(propose(portfolio, 4, known(*run), 9)).count("llm:n") >= 2


class Fixtures(ProposerContract):
    @pytest.fixture
    def task(self) -> Task:
        return TASK

    @pytest.fixture
    def target(self) -> Target:
        return TARGET

    @pytest.fixture
    def history(self) -> list[Trial]:
        return [Trial(subject(16), measured(1.5))]


class TestPortfolio(Fixtures):
    repeats = False

    @pytest.fixture
    def make(self) -> Callable[[], Proposer]:
        return lambda: Portfolio([writer()], TunablesProposer())

    def test_names_itself(self, make: Callable[[], Proposer], task: Task, target: Target) -> None:
        proposer = make()
        made = proposer.propose(task, target, Known(), 6, random.Random(0))
        assert {p.proposer for p in made} <= set(proposer.name.split("+"))
