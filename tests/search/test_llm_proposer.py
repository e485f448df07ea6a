import itertools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from contracts.forecaster_contract import TARGET, TASK, failed, measured, source, subject
from contracts.proposer_contract import ProposerContract
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from forewarp.core.errors import ModelError
from forewarp.core.protocols import Known, Proposal, Proposer, Trial
from forewarp.core.values import Candidate, Cost, Target, Task
from forewarp.search.proposers.llm import LlmProposer
from forewarp.search.proposers.past import languages_for

GPU = Target("g", "cuda", "sm_90", 132)
SEEDED = replace(TASK, seeds=(Candidate(source(), "cpp"),))


class Script:
    """A model that gives the next of its replies, and keeps what it was told."""

    def __init__(self, *replies: Any) -> None:
        self.replies, self.told, self.systems = list(replies), [], []

    def __call__(self, messages: Any, info: Any) -> ModelResponse:
        self.told.append("\n".join(str(p.content) for p in messages[-1].parts))
        self.systems.append(info.instructions)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        if isinstance(reply, str):
            return ModelResponse(parts=[TextPart(reply)])
        return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, reply)])


def kernel(body: str, language: str = "cpp") -> dict[str, str]:
    return {"idea": f"try {body}", "language": language, "source": source(body)}


def propose(
    script: Script,
    count: int = 1,
    task: Task = SEEDED,
    target: Target = TARGET,
    history: tuple[Trial, ...] = (),
    seen: frozenset[str] = frozenset(),
) -> list[Proposal]:
    proposer = LlmProposer(FunctionModel(script))
    assert isinstance(proposer, Proposer)
    return proposer.propose(task, target, Known(trials=history, seen=seen), count, random.Random(0))


def test_a_reply_becomes_a_candidate_with_its_declared_tunables():
    (proposal,) = propose(Script(kernel("a();")))
    assert proposal.candidate == Candidate(source("a();"), "cpp", {"BLOCK": 64})
    assert proposal.proposer.startswith("llm:")
    assert proposal.note == "try a();"
    assert proposal.cost.output_tokens > 0


def test_at_most_four_calls_and_never_more_than_asked():
    assert len(propose(Script(*(kernel(f"f{i}();") for i in range(4))), count=24)) == 4
    assert len(propose(Script(kernel("a();"), kernel("b();")), count=2)) == 2
    assert propose(Script(), count=0) == []


def test_calls_go_in_different_directions():
    script = Script(*(kernel(f"f{i}();") for i in range(4)))
    propose(script, count=4)
    assert len({text.split("## What to write")[1] for text in script.told}) == 4


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"idea": "", "language": "cpp", "source": "int x;"}, "no launch plan"),
        ({"idea": "", "language": "cpp", "source": source().replace("inputs", "imputs")}, "imputs"),
        ({"idea": "", "language": "triton", "source": source()}, "language must be one of cpp"),
        ({"idea": "", "language": "cpp"}, "source"),
    ],
)
def test_a_malformed_reply_is_told_why_and_may_be_mended(bad: dict[str, str], message: str):
    script = Script(bad, kernel("a();"))
    assert [p.note for p in propose(script)] == ["try a();"]
    assert message in script.told[1]


def test_what_stays_malformed_is_dropped_and_its_cost_carried_over():
    script = Script("no", "no", "no", kernel("a();"))
    proposer = LlmProposer(FunctionModel(script))
    assert proposer.propose(SEEDED, TARGET, Known(), 1, random.Random(0)) == []
    owed = proposer.owed
    assert owed.output_tokens > 0
    (proposal,) = proposer.propose(SEEDED, TARGET, Known(), 1, random.Random(0))
    assert proposal.cost.output_tokens > owed.output_tokens
    assert proposer.owed == Cost()


def test_seen_candidates_are_asked_for_again_and_never_returned():
    old = Candidate(source("a();"), "cpp", {"BLOCK": 64})
    script = Script(kernel("a();"), kernel("b();"))
    (proposal,) = propose(script, seen=frozenset({old.sha256}))
    assert proposal.note == "try b();"
    assert "tried already" in script.told[1]


def test_twins_in_one_batch_are_one():
    assert len(propose(Script(kernel("a();"), kernel("a();")), count=2)) == 1


def test_a_fence_around_the_source_is_taken_off():
    reply = kernel("a();") | {"source": f"```cpp\n{source('a();')}```"}
    assert propose(Script(reply))[0].candidate.source == source("a();")


def test_provider_errors_raise_only_if_nothing_came():
    assert len(propose(Script(ModelHTTPError(429, "m"), kernel("a();")), count=2)) == 1
    with pytest.raises(ModelError) as e:
        propose(Script(ModelHTTPError(429, "m"), ModelHTTPError(429, "m")), count=2)
    assert e.value.retryable


def test_prompt_shows_format_seed_best_and_failures():
    history = (
        Trial(subject(16, "best();"), measured(2.5)),
        Trial(subject(32, "best();"), measured(2.2)),
        Trial(subject(16, "poor();"), measured(0.5)),
        Trial(subject(16, "wrong();"), failed(log="max error 3.2" + "x" * 9000)),
    )
    script = Script(kernel("a();"))
    (proposal,) = propose(script, history=history)
    text = script.told[0]
    assert "S = 2.500" in text
    assert "2 settings of this program" in text
    assert "S = 2.200" not in text
    assert text.index("best();") < text.index("poor();") < text.index("wrong();")
    assert "max error 3.2" in text
    assert len(text) < 9000
    assert "odd: N = 1021" in text
    assert source() in text
    assert "-march=native" in script.systems[0]
    assert "NVRTC" not in script.systems[0]
    assert proposal.parent == history[0].subject.candidate.sha256


def test_without_a_seed_a_generic_example_is_shown():
    script = Script(kernel("a();"))
    propose(script, task=TASK)
    assert "another task" in script.told[0]
    assert "silu" in script.told[0]


def test_languages_are_the_seeds_that_run_on_the_target():
    cuda = replace(TASK, seeds=(Candidate("x", "cuda"), Candidate("x", "cpp"), Candidate("x", "python")))
    assert languages_for(cuda, GPU) == ("cuda",)
    assert languages_for(cuda, TARGET) == ("cpp",)
    assert languages_for(TASK, GPU) == ("triton", "cuda")


def test_gpu_prompt_explains_gpu_languages():
    script = Script({"idea": "", "language": "cuda", "source": "x"}, "no", "no")
    assert propose(script, task=TASK, target=GPU) == []
    assert "tl.constexpr" in script.systems[0]
    assert "NVRTC" in script.systems[0]
    assert "multiprocessors: 132" in script.told[0]


class TestLlmProposer(ProposerContract):
    repeats = False  # a proposal carries how long the model took

    @pytest.fixture
    def make(self) -> Callable[[], Proposer]:
        numbers = itertools.count()

        def reply(messages: Any, info: Any) -> ModelResponse:
            return ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, kernel(f"f{next(numbers)}();"))])

        return lambda: LlmProposer(FunctionModel(reply))

    @pytest.fixture
    def task(self) -> Task:
        return SEEDED

    @pytest.fixture
    def target(self) -> Target:
        return TARGET

    @pytest.fixture
    def history(self) -> list[Trial]:
        return [Trial(subject(16), measured(1.5)), Trial(subject(16, "wrong();"), failed())]
