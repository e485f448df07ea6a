"""Rounds of a gate: whose fault a failure is, when a kernel is done, and what a kill leaves."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from support.small_tasks import cpp, small_task

from forewarp.core.values import Build, Measurement, Status
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors.alternating import PairedMeasurement
from forewarp.tools import gate_rounds
from forewarp.tools.gate_rounds import GateRound, TimedKernel, keep_round, read_rounds


def measured(status: Status, **fields: Any) -> Measurement:
    return Measurement(status, "tie" if status == "ok" else "failed", "device", "T0", log=f"log of {status}", **fields)


@pytest.mark.parametrize(
    ("old", "new", "verdict", "said"),
    [
        ("ok", "incorrect", "wrong", "incorrect"),
        ("ok", "runtime_error", "wrong", "runtime error"),
        ("ok", "timeout", "wrong", "timeout"),
        ("crashed", "crashed", "wrong", "in the old environment, too"),
        ("incorrect", "ok", "not compared", "incorrect in the old environment"),
        # The two share the device's memory, as no other measurement does.
        ("ok", "out_of_memory", "not compared", "out of memory in the new environment"),
    ],
)
def test_failures_and_whose_fault_they_are(old: Status, new: Status, verdict: str, said: str) -> None:
    found = gate_rounds._failed(PairedMeasurement(measured(old), measured(new), {}))
    assert found["verdict"] == verdict
    assert said in found["reason"]
    assert found["log"]


def test_a_time_that_nobody_should_believe_is_not_compared() -> None:
    odd = Measurement("ok", "impossible", "device", "T0")
    found = gate_rounds._failed(PairedMeasurement(measured("ok"), odd, {}))
    assert (found["verdict"], found["reason"]) == ("not compared", "impossible in the new environment")
    assert not gate_rounds._failed(PairedMeasurement(measured("ok"), measured("ok"), {}))


def test_what_does_not_compile() -> None:
    good, bad = Build("ok", 0.0), Build("compile_error", 0.0, "error: no")
    assert gate_rounds._uncompiled(good, bad) == {"verdict": "does not compile", "reason": "", "log": "error: no"}
    assert "too" in gate_rounds._uncompiled(bad, bad)["reason"]
    assert gate_rounds._uncompiled(bad, good)["verdict"] == "not compared"
    assert not gate_rounds._uncompiled(good, good)


def kernel(**rounds: list[float]) -> TimedKernel:
    made = TimedKernel("softmax.cpp", small_task(), cpp(), detect_cpu(), threshold=0.02)
    count = max(map(len, rounds.values()), default=0)
    for number in range(count):
        ratios = {name: values[number] for name, values in rounds.items()}
        made.rounds[number + 1] = GateRound(kernel=made.key, round=number + 1, log_ratios=ratios)
    return made


def test_a_kernel_is_open_until_each_of_its_shapes_is_decided() -> None:
    equal, noisy = [0.0, 0.001, -0.001, 0.0] * 2, [0.0, 0.1, -0.1, 0.0] * 2
    assert kernel().is_open()
    assert kernel(even=equal, odd=noisy).is_open()
    assert kernel(even=equal).is_open()
    assert not kernel(even=equal, odd=equal).is_open()
    slower = kernel(even=equal, odd=[math.log(1.1) + r for r in equal])
    assert {name: found and found.verdict for name, found in slower.shapes().items()} == {
        "even": "same",
        "odd": "slower",
    }
    failed = kernel(even=noisy, odd=noisy)
    failed.rounds[1] = failed.rounds[1].model_copy(update={"verdict": "wrong"})
    assert not failed.is_open()
    assert failed.failure is not None


def test_a_verdict_stays_while_other_shapes_are_open() -> None:
    equal, noisy = [0.0, 0.001, -0.001, 0.0, 0.2], [0.0, 0.1, -0.1, 0.0, 0.1]
    found = kernel(even=equal, odd=noisy)
    assert found.is_open()
    assert {n: r and r.verdict for n, r in found.shapes().items()} == {"even": "same", "odd": None}


def test_one_round_gives_no_interval() -> None:
    assert set(kernel(even=[0.0], odd=[0.0]).shapes().values()) == {None}


def test_the_journal_outlives_a_kill(tmp_path: Path) -> None:
    journal = tmp_path / "gate" / "one.jsonl"
    assert list(read_rounds(journal)) == []
    first, second = (GateRound(kernel="k", round=n, log_ratios={"only": 0.5}) for n in (1, 2))
    keep_round(journal, first)
    with journal.open("a") as file:
        file.write('{"kernel":"k","rou')
    assert list(read_rounds(journal)) == [first]
    keep_round(journal, second)
    assert list(read_rounds(journal)) == [first, second]
