from __future__ import annotations

import time
from dataclasses import replace

import pytest
from support.synthetic_executor import SOURCE, SyntheticExecutor, seed, task

from forewarp.core.errors import CandidateError, WorkerError
from forewarp.core.values import Build, Candidate, Evidence, Task
from forewarp.search.gate import LOG_CHARS, Gate

LAUNCHED = (
    SOURCE.replace('kernel = "go"', 'kernel = "go"\ngrid = ["TILE"]\nblock = [32]')
    .replace("TILE * x[0] + UNROLL + WIDTH", "x[0]")
    .replace('extern "C"', "__global__")
)


class SameCode(SyntheticExecutor):
    """Every candidate compiles to the same binary, as where tunables only change the launch."""

    def compile(self, task: Task, candidate: Candidate) -> Build:
        return replace(super().compile(task, candidate), binary_sha256="same")


def outcomes(gate: Gate, *batch: Candidate) -> list[str]:
    return [g.outcome for g in gate.check(batch)]


def gate(executor: SyntheticExecutor | None = None, *, described: bool = True) -> Gate:
    executor = executor or SyntheticExecutor()
    return Gate(executor, task(), executor.describe(task()) if described else ())


def test_answers_come_in_order_whatever_the_compiles_take() -> None:
    class Uneven(SyntheticExecutor):
        def compile(self, task: Task, candidate: Candidate) -> Build:
            time.sleep(0.03 if candidate.tunables["UNROLL"] == 1 else 0.0)
            return super().compile(task, candidate)

    broken = seed(SOURCE.replace("extern", "#error\nextern"))
    assert outcomes(gate(Uneven()), seed(), broken, seed(UNROLL=2), seed()) == [
        *("passed", "compile_error", "passed", "duplicate"),
    ]


def test_equal_kernels_under_other_launches_are_two_programs() -> None:
    wider = LAUNCHED.replace("block = [32]", "block = [64]")
    a, b = (Candidate(s, "cuda", seed().tunables) for s in (LAUNCHED, wider))
    assert outcomes(gate(SameCode()), a, b) == ["passed", "passed"]


def test_equal_binaries_under_other_launches_are_not_the_same_code() -> None:
    a, b, c = (Candidate(LAUNCHED, "cuda", dict(seed(**t).tunables)) for t in ({}, {"TILE": 128}, {"UNROLL": 2}))
    assert outcomes(gate(SameCode()), a, b, c) == ["passed", "passed", "same_code"]


def test_without_signatures_other_tunables_never_count_as_the_same_code() -> None:
    assert outcomes(gate(SameCode(), described=False), seed(), seed(UNROLL=2)) == ["passed", "passed"]


def test_host_code_of_modules_is_not_in_their_binary() -> None:
    a, b = (Candidate(f"class ModelNew:\n    n = {n}\n", "python") for n in (1, 2))
    assert outcomes(gate(SameCode()), a, b, a) == ["passed", "passed", "duplicate"]


def test_a_plan_that_does_not_fit_the_task_is_malformed() -> None:
    two_inputs = seed(SOURCE.replace('inputs = ["x"]', 'inputs = ["x", "z"]'))
    [answer] = gate().check([two_inputs])
    assert answer.outcome == "malformed"
    assert "get_inputs()" in answer.reason


def test_how_tunables_may_vary_does_not_make_another_program() -> None:
    other_choices = Candidate(SOURCE.replace("UNUSED = [0, 1]", "UNUSED = [0, 1, 2]"), "cpp", seed().tunables)
    assert outcomes(gate(), seed(), other_choices) == ["passed", "duplicate"]


def test_left_out_tunables_take_their_defaults() -> None:
    assert outcomes(gate(), seed(), Candidate(SOURCE, "cpp", {"UNROLL": 1})) == ["passed", "duplicate"]


def test_long_logs_keep_beginning_and_end() -> None:
    class Chatty(SyntheticExecutor):
        def compile(self, task: Task, candidate: Candidate) -> Build:
            return Build("compile_error", 0.1, log="first error\n" + "noise\n" * 5000 + "the end")

    [answer] = gate(Chatty()).check([seed()])
    assert answer.reason.startswith("compile_error: first error")
    assert answer.reason.endswith("the end")
    assert len(answer.reason) < LOG_CHARS + 100


def test_what_the_executor_refuses_is_malformed() -> None:
    class Strict(SyntheticExecutor):
        def compile(self, task: Task, candidate: Candidate) -> Build:
            raise CandidateError("a cuda candidate does not run here")

    assert outcomes(gate(Strict()), seed()) == ["malformed"]


def test_a_lost_worker_is_not_the_candidates_fault() -> None:
    class Lost(SyntheticExecutor):
        def compile(self, task: Task, candidate: Candidate) -> Build:
            raise WorkerError("the compiler process was killed")

    with pytest.raises(WorkerError):
        outcomes(gate(Lost()), seed())


def test_what_it_remembers_counts_as_seen() -> None:
    executor = SyntheticExecutor()
    fresh = gate(executor)
    fresh.remember(seed(), "passed", executor.compile(task(), seed()))
    fresh.remember(Candidate("no plan", "cpp"), "malformed", None)
    assert outcomes(fresh, seed(), seed(UNUSED=1), seed(UNROLL=2)) == ["duplicate", "same_code", "passed"]


def test_a_module_gets_the_evidence_of_its_trace() -> None:
    class Tracing(SyntheticExecutor):
        def evidence(self, task: Task, candidate: Candidate) -> Evidence | None:
            return Evidence({"registers": 32.0}, ("it spills",))

        def compile(self, task: Task, candidate: Candidate) -> Build:
            return Build("ok", 0.0) if "ModelNew" in candidate.source else Build("compile_error", 0.0, "error: no")

    good, bad = (Candidate(s, "python") for s in ("class ModelNew: ...", "class Model: ..."))
    one, other = gate(Tracing()).check([good, bad])
    assert one.build is not None
    assert (one.build.evidence.facts, one.build.evidence.problems) == ({"registers": 32.0}, ("it spills",))
    assert other.build is not None
    assert other.build.evidence == Evidence()


class Refusing(SyntheticExecutor):
    """No candidate compiles; `says` is what the compiler prints, with the value of TILE."""

    def __init__(self, says: str) -> None:
        super().__init__()
        self.says, self.compiled = says, 0

    def compile(self, task: Task, candidate: Candidate) -> Build:
        self.compiled += 1
        return Build("compile_error", 1.0, self.says.format(candidate.tunables["TILE"]))


def test_a_source_that_fails_alike_whatever_its_tunables_is_built_no_more() -> None:
    executor = Refusing("kernel.cpp:7:52: error: 'undeclared' was not declared")
    checking = gate(executor)
    choices = [seed(TILE=tile) for tile in (64, 16, 32, 128)]
    answers = [next(iter(checking.check([one]))) for one in choices]
    assert executor.compiled == 2
    assert {a.outcome for a in answers} == {"compile_error"}
    assert f"{choices[0].short} and {choices[1].short}" in answers[2].reason
    assert "'undeclared' was not declared" in answers[3].reason


def test_a_source_of_which_a_choice_compiles_is_not_broken() -> None:
    class Corner(Refusing):
        def compile(self, task: Task, candidate: Candidate) -> Build:
            refused = super().compile(task, candidate)
            return Build("ok", 1.0) if candidate.tunables["TILE"] == 64 else refused

    executor = Corner("kernel.cpp:7:52: error: no such instruction")
    checking = gate(executor)
    for tile in (64, 16, 32, 128):
        next(iter(checking.check([seed(TILE=tile)])))
    assert executor.compiled == 4


def test_a_resumed_run_knows_which_sources_are_broken() -> None:
    executor = Refusing("kernel.cpp:7:52: error: 'undeclared' was not declared")
    checking = gate(executor)
    for one in (seed(), seed(TILE=16)):
        checking.remember(one, "compile_error", executor.compile(task(), one))
    next(iter(checking.check([seed(TILE=32)])))
    assert executor.compiled == 2


@pytest.mark.parametrize(
    "says",
    [
        "kernel.cpp:7:52: error: too much shared memory for {}",
        "kernel.cpp:7:52: error: static assertion failed: the tile is too large",
        "kernel.cpp:7:2: error: #error the tile is too large",
        "terminated",
    ],
)
def test_errors_of_the_values_do_not_speak_against_a_source(says: str) -> None:
    executor = Refusing(says)
    checking = gate(executor)
    for tile in (64, 16, 32, 128):
        next(iter(checking.check([seed(TILE=tile)])))
    assert executor.compiled == 4
