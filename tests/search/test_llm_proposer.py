import random
from dataclasses import replace
from typing import Any

import pytest
from contracts.forecaster_contract import TARGET, TASK, failed, measured, source, subject
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from forewarp.core import bins
from forewarp.core.errors import ModelError
from forewarp.core.protocols import Attempt, Known, Proposal, Subject, Trial
from forewarp.core.values import Build, Candidate, Cost, Forecast, Status, Target, Task
from forewarp.search.proposers.context import PARENT_CHARS, SOURCE_CHARS, prompt
from forewarp.search.proposers.llm import MISFIT, KernelWriter
from forewarp.search.proposers.operators import FIRST, LATER, Directive, Operator, plan
from forewarp.search.proposers.past import REPAIRS, Past, languages_for
from forewarp.surrogate.models import LanguageModel

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
    number: int = 0,
) -> list[Proposal]:
    return asked(
        KernelWriter(FunctionModel(script)), Past(task, target, Known(trials=history, seen=seen)), count, number
    )


def asked(writer: KernelWriter, past: Past, count: int = 1, number: int = 0) -> list[Proposal]:
    return writer.write(past, plan(past, count, random.Random(number)))


def test_a_reply_becomes_a_candidate_with_its_declared_tunables():
    (proposal,) = propose(Script(kernel("a();")))
    assert proposal.candidate == Candidate(source("a();"), "cpp", {"BLOCK": 64})
    assert proposal.proposer.startswith("llm:")
    assert proposal.note == "try a();"
    assert proposal.cost.output_tokens > 0


def test_never_more_than_asked():
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
    writer, past = KernelWriter(FunctionModel(script)), Past(SEEDED, TARGET, Known())
    assert asked(writer, past) == []
    owed = writer.owed
    assert owed.output_tokens > 0
    (proposal,) = asked(writer, past)
    assert proposal.cost.output_tokens > owed.output_tokens
    assert writer.owed == Cost()


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
    (proposal,) = propose(script, history=history, number=1)
    text = script.told[0]
    assert "S = 2.500" in text
    assert "BLOCK = 32: S = 2.200" in text
    assert "best();" in text
    assert "poor();" not in text
    assert "S = 0.500" in text
    assert "incorrect: max error 3.2" in text
    assert len(text) < 9000
    assert "odd: N = 1021" in text
    assert "-march=native" in script.systems[0]
    assert "NVRTC" not in script.systems[0]
    assert proposal.parent == history[0].subject.candidate.sha256


def test_without_a_seed_a_generic_example_is_shown():
    script = Script(kernel("a();"))
    propose(script, task=TASK)
    assert "another task" in script.told[0]
    assert "silu" in script.told[0]


def test_a_module_among_the_seeds_is_shown_to_begin_with():
    module = "class ModelNew(Model):\n    def forward(self, x):\n        return generated(x)\n"
    script = Script(kernel("a();"))
    propose(script, task=replace(TASK, seeds=(Candidate(module, "python"),)))
    assert "which this run begins with" in script.told[0]
    assert module in script.told[0]


def test_languages_are_the_seeds_that_run_on_the_target():
    cuda = replace(TASK, seeds=(Candidate("x", "cuda"), Candidate("x", "cpp"), Candidate("x", "python")))
    assert languages_for(cuda, GPU) == ("cuda",)
    assert languages_for(cuda, TARGET) == ("cpp",)
    assert languages_for(TASK, GPU) == ("triton", "cuda")


def test_gpu_prompt_explains_gpu_languages():
    script = Script({"idea": "", "language": "cuda", "source": "x"}, "no", "no")
    (proposal,) = propose(script, task=TASK, target=GPU)
    assert proposal.candidate == Candidate("x", "cuda")  # as it is, so that the gate says what is wrong
    assert "tl.constexpr" in script.systems[0]
    assert "NVRTC" in script.systems[0]
    assert "multiprocessors: 132" in script.told[0]


def attempt(
    body: str, operator: str = "tiling", parent: str = "", speedup: float | None = None, status: Status | None = None
) -> Attempt:
    made = Proposal(subject(body=body).candidate, "llm:m", parent, f"idea of {body}", operator=operator)
    if status == "compile_error":
        build = Build("compile_error", 0.1, log=f"k.cpp:1: error: {body}")
        return Attempt(made, "compile_error", "compile_error: …", build)
    found = measured(speedup) if speedup else failed(status) if status else None
    return Attempt(made, "passed", "", Build("ok", 0.1), None, found)


def known(*attempts: Attempt) -> Known:
    trials = [
        Trial(Subject(a.proposal.candidate, a.build), a.measurement) for a in attempts if a.build and a.measurement
    ]
    return Known(attempts, trials, {identity(a) for a in attempts})


def with_candidate(a: Attempt, candidate: Candidate) -> Attempt:
    return replace(a, proposal=replace(a.proposal, candidate=candidate))


def identity(a: Attempt) -> str:
    return a.proposal.candidate.sha256


def write(script: Script, run: Known, *directives: Directive, model: str = "m") -> list[Proposal]:
    proposer = KernelWriter(LanguageModel(FunctionModel(script), model))
    return proposer.write(Past(SEEDED, TARGET, run), directives)


GOOD = attempt("good();", speedup=2.0)
CHANGE = Directive(LATER[0], GOOD)


def edit(search: str, replace: str) -> dict[str, Any]:
    return {"idea": "edited", "edits": [{"search": search, "replace": replace}]}


def test_edits_change_the_parents_source_and_keep_its_tunables():
    tuned = replace(
        GOOD, proposal=replace(GOOD.proposal, candidate=replace(GOOD.proposal.candidate, tunables={"BLOCK": 16}))
    )
    script = Script(edit("good();", "better();"))
    (made,) = write(script, known(tuned), Directive(LATER[0], tuned))
    assert made.candidate == Candidate(source("better();"), "cpp", {"BLOCK": 16})
    assert (made.parent, made.operator, made.note) == (identity(tuned), "tiling", "edited")


def test_a_changed_declaration_begins_at_its_new_default():
    script = Script(edit("[64, 16, 32, 128, 256]", "[48, 16]"))
    (made,) = write(script, known(GOOD), CHANGE)
    assert made.candidate.tunables == {"BLOCK": 48}


def test_edits_that_do_not_fit_go_back_once_and_then_the_file_is_asked_for():
    script = Script(edit("nowhere", "x"), edit("y", "z"), kernel("whole();"))
    (made,) = write(script, known(GOOD), CHANGE)
    assert "does not occur" in script.told[1]
    assert "Send all edits again" in script.told[1]
    assert "occurs" in script.told[2]
    assert "send the complete file" in script.told[2]
    assert made.note == f"try whole(); {MISFIT}"


def test_a_model_whose_edits_failed_twice_in_a_run_is_asked_for_files():
    misfits = [attempt(f"f{i}();") for i in range(2)]
    noted = [replace(a, proposal=replace(a.proposal, note=f"x {MISFIT}", proposer="llm:m")) for a in misfits]
    script = Script(kernel("a();"), kernel("b();"))
    write(script, known(GOOD, *noted), CHANGE)
    assert "`edits`" not in script.told[0]
    write(script, known(GOOD, *noted), CHANGE, model="another")
    assert "`edits`" in script.told[1]


def test_a_program_that_the_gate_would_reject_goes_back_once():
    again = {"idea": "again", "language": "cpp", "source": source("good();  /* again */")}
    script = Script(again, again)
    (made,) = write(script, known(GOOD), CHANGE)
    assert "tried already" in script.told[1]
    assert made.note == "again"  # the gate calls it a duplicate, and its cost is on the record


def test_what_fails_is_repaired_up_to_three_times_and_then_abandoned():
    line = [GOOD, attempt("b0();", parent=identity(GOOD), status="compile_error")]
    for number in range(4):
        past = Past(SEEDED, TARGET, known(*line))
        assert [b.repairs for b in past.broken] == ([number] if number < REPAIRS else [])
        last = line[-1]
        assert past.base(last) == 2.0
        line.append(attempt(f"b{number + 1}();", "repair", identity(last), status="incorrect"))


def test_a_repair_that_works_ends_the_line_and_tunables_that_fail_break_nothing():
    broken = attempt("b();", status="compile_error")
    fixed = attempt("c();", "repair", identity(broken), speedup=1.1)
    wrong = replace(
        fixed, proposal=replace(fixed.proposal, candidate=subject(256, "c();").candidate), measurement=failed()
    )
    assert Past(SEEDED, TARGET, known(broken, fixed, wrong)).broken == []


def test_a_repair_shows_log_and_source():
    broken = attempt("b();", status="compile_error")
    past = Past(SEEDED, TARGET, known(broken))
    directives = plan(past, 3, random.Random(0))
    assert directives[0].operator.name == "repair"
    assert all(d.operator.begins == "nothing" for d in directives[1:])
    text = prompt(past, directives[0], edits=True)
    assert "k.cpp:1: error: b();" in text
    assert source("b();") in text
    assert "compile error" in text


def test_crossing_takes_two_lines():
    child = attempt("child();", parent=identity(GOOD), speedup=1.9)
    other = attempt("other();", speedup=1.5)
    past = Past(SEEDED, TARGET, known(GOOD, child, other))
    plans = [d for n in range(20) for d in plan(past, 4, random.Random(n)) if d.operator.name == "crossover"]
    assert plans
    assert all(identity(other) in d.parents for d in plans)
    text = prompt(past, plans[0], edits=False)
    assert "good();" in text or "child();" in text
    assert "other();" in text


def test_a_prompt_tells_what_came_of_siblings_and_of_the_forecast():
    tried = [
        attempt("slow();", "memory", identity(GOOD), speedup=1.2),
        replace(attempt("same();", "fusion", identity(GOOD)), outcome="same_code"),
        attempt("bad();", "launch", identity(GOOD), status="runtime_error"),
    ]
    surprising = replace(GOOD, forecast=Forecast(bins.from_normal(-1, 0.2), 0.9, "f", mean_log2=-1, sd_log2=0.2))
    past = Past(SEEDED, TARGET, known(surprising, *tried))
    text = prompt(past, Directive(LATER[0], surprising), edits=True)
    assert "memory (idea of slow();): S = 1.200" in text
    assert "fusion (idea of same();): compiled to machine code that was there already" in text
    assert "runtime error: max error 3.2" in text
    assert "it is faster than it looks" in text


@pytest.mark.parametrize("operator", [*FIRST, *LATER], ids=lambda o: o.name)
@pytest.mark.parametrize("target", [TARGET, GPU], ids=lambda t: t.kind)
def test_every_operator_has_its_words(operator: Operator, target: Target):
    broken, other = attempt("b();", status="incorrect"), attempt("other();", speedup=1.5)
    past = Past(SEEDED, target, known(GOOD, other, broken))
    begin = {"nothing": None, "broken": broken}.get(operator.begins, GOOD)
    directive = Directive(operator, begin)
    if operator.begins == "two":
        directive = replace(directive, other=other)
    text = prompt(past, directive, edits=operator.edits).split("## What to write")[1]
    assert len(text.split("\n\n")[1]) > 80
    assert ("`edits`" in text) == operator.edits


def test_a_program_to_change_is_shown_whole():
    long = attempt("x();" + " // a remark" * 2000 + " last();", speedup=2.0)
    text = prompt(Past(SEEDED, TARGET, known(long)), Directive(LATER[0], long), edits=True)
    assert long.proposal.candidate.source in text


def test_a_source_that_nobody_could_read_leaves_room_for_the_rest():
    long = attempt("x();" + " // padding" * 40_000, speedup=2.0)
    text = prompt(Past(SEEDED, TARGET, known(long)), Directive(LATER[0], long), edits=True)
    assert len(text) < PARENT_CHARS + SOURCE_CHARS


def test_a_beginning_on_hopper_is_given_what_is_known_about_products_and_an_example():
    product = replace(TASK, name="product", reference="def forward(self, a, b):\n    return a @ b")
    past = Past(product, GPU, known())
    text = prompt(past, Directive(FIRST[0]), edits=False)
    assert "wgmma fed by TMA" in text
    assert "tensor_maps" in text
    cuda = replace(GPU, arch="sm_75")
    assert "wgmma fed by TMA" not in prompt(Past(product, cuda, known()), Directive(FIRST[0]), edits=False)
