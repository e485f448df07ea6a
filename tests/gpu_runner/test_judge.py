"""Order in which the judge runs calls, fetches their results and compares them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from forewarp.core.values import Signature, Task, TensorSpec, Workload
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.worker import judge as judging
from forewarp.gpu_runner.worker.check import Mismatch
from forewarp.gpu_runner.worker.judge import Judge
from forewarp.gpu_runner.worker.memory import Plan
from forewarp.gpu_runner.worker.requests import BuiltKernel, Judgement, MeasureJob
from forewarp.gpu_runner.worker.timing import Bench, Condition, Sample

TENSOR = TensorSpec("x", (4,), "float32")
SIGNATURE = Signature("only", (TENSOR,), {}, {}, (), (TENSOR,), None, 32)


class Scripted:
    """A bench and a stage that take down what they are asked for, and find the results wrong that they are told to."""

    tier, oracle = "T1", "fp64"
    conditions: tuple[Condition, ...] = ()
    slot_count = 2
    workloads = (Workload("only"),)
    asks_before_timing = fetches = False

    def __init__(self, anchor: Sequence[Any] | None = None, wrong: Callable[[list[str]], bool] | None = None) -> None:
        self.asked: list[str] = []
        self.protections: list[str] = []
        self.anchor_outputs, self._wrong = anchor, wrong

    def stage(self, index: int) -> Scripted:
        return self

    def cases(self, *, thorough: bool) -> list[str]:
        return ["ordinary"]

    def state_checks(self) -> list[str]:
        return []

    def flags(self) -> list[str]:
        return []

    def state(self) -> dict[str, float]:
        return {}

    def snapshot(self, slot: int) -> list[int]:
        return []

    def kernelbench_allclose(self, slot: int) -> bool:
        return False

    def sample(self, stage: object, arm: str, slot: int, condition: Condition = "cold") -> Callable[[], Sample]:
        self.asked.append(arm)
        return lambda: (1e-4, 0.0)

    def try_spoilt(self, stage: object, slot: int) -> None:
        self.sample(stage, "candidate", slot)

    def choose_mode(self, stage: object, longest_s: float) -> str:
        return "call"

    def compare(self, slot: int, outputs: Sequence[Any] | None = None) -> float:
        self.asked.append("compare" if outputs is None else "compare the anchor's")
        if self._wrong is not None and self._wrong(self.asked):
            raise Mismatch("output 0 is off")
        return 0.5

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.asked.append(name)


@pytest.fixture(autouse=True)
def _this_process_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging.protections, "hide_memory", lambda: None)


def judged(bench: Scripted, *, checked: bool = False) -> Judgement:
    job = MeasureJob(
        task=Task("task", "task", "", {"cpu": (Workload("only"),)}),
        target=detect_cpu(),
        signatures=(SIGNATURE,),
        candidate=BuiltKernel("cpp", "", "", {}),
        memory=1 << 30,
        call_timeout_s=5.0,
        time_s=5.0,
        looks=(12,),
        checked=checked,
        cell_plans=(Plan(2),),
    )
    return Judge(job, lambda: cast("Bench", bench), lambda _: "enough").run()


def test_inputs_are_spoilt_before_a_result_is_fetched_and_put_back_before_it_is_compared() -> None:
    bench = Scripted()
    assert judged(bench).status == "ok"
    compared = [i for i, name in enumerate(bench.asked) if name == "compare"]
    assert compared
    for at in compared:
        assert bench.asked[at - 3 : at] == ["spoil_inputs", "deliver", "restore_inputs"]


def test_new_inputs_are_drawn_and_compared_when_timing_is_over() -> None:
    bench = Scripted()
    judged(bench)
    after = bench.asked[bench.asked.index("check_guards") :]
    assert [n for n in after if n in ("redraw", "candidate", "compare")] == ["redraw", "candidate", "compare"]


def test_what_was_checked_before_is_compared_less_but_before_while_and_after_it_is_timed() -> None:
    bench = Scripted()
    assert judged(bench, checked=True).status == "ok"
    compared = [i for i, name in enumerate(bench.asked) if name == "compare"]
    timed = bench.asked.index("check_inputs")
    assert len([i for i in compared if i < timed]) >= 2
    assert compared[-1] > timed
    assert "cases" not in bench.asked
    found = judged(Scripted(wrong=lambda asked: "check_inputs" in asked), checked=True)
    assert found.status == "incorrect"


def test_what_is_wrong_only_then_is_incorrect() -> None:
    found = judged(Scripted(wrong=lambda asked: "redraw" in asked))
    assert (found.status, found.log) == ("incorrect", "output 0 is off")


def test_a_kernel_to_measure_against_must_be_right_itself() -> None:
    found = judged(Scripted(anchor=["outputs"], wrong=lambda asked: asked[-1] == "compare the anchor's"))
    assert found.status == "anchor_wrong"
