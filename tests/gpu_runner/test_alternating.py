"""Two processes that take turns: their order, what the ratio makes of drift, and failures of one side."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
from collections.abc import Iterator, Sequence

import pytest
from support.small_tasks import cpp, small_task

from forewarp.core.protocols import Subject
from forewarp.core.values import Measurement, WorkloadTiming
from forewarp.gpu_runner.devices import detect_cpu
from forewarp.gpu_runner.executors import alternating
from forewarp.gpu_runner.executors.alternating import STRETCHES, AlternatingExecutors, log_ratios
from forewarp.gpu_runner.statistics import Samples
from forewarp.gpu_runner.worker.requests import TimingLook


def look(samples: int, workload: int = 0, of: int = 1) -> TimingLook:
    return TimingLook(Samples(f"workload {workload}", (1.0,) * samples, (1.0,) * samples, 0.0), workload, of)


def order(first: int, stops: Sequence[int] = (STRETCHES, STRETCHES), workloads: int = 1) -> str:
    """Let two sides time stretches at once, each its number of them, and return whose each was."""
    baton = alternating._Baton(first)
    seen: list[str] = []

    def runs(number: int) -> None:
        side = alternating._Side(number)
        side.begin(baton)
        with contextlib.ExitStack() as leaving:
            leaving.callback(baton.pass_on, number, leaving=True)
            if stops[number]:
                side(None)
            for workload in range(workloads):
                for stretch in range(1, stops[number] + 1):
                    seen.append("AB"[number])
                    if side(look(stretch, workload, workloads)) == "beaten":
                        break

    threads = [threading.Thread(target=runs, args=(n,), daemon=True) for n in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    return "".join(seen)


def test_stretches_come_in_blocks_that_cancel_drift() -> None:
    assert order(0) == "ABBAABBAABBAABBA"
    assert order(1) == "BAABBAABBAABBAAB"
    assert order(0, workloads=2) == "ABBAABBAABBAABBA" * 2


def test_a_side_that_is_left_alone_stops() -> None:
    assert order(0, (STRETCHES, 1)) == "AB"
    assert order(0, (0, STRETCHES)) == "B"


def test_no_side_times_while_the_other_one_prepares() -> None:
    baton = alternating._Baton(0)
    seen: list[str] = []
    prepared = threading.Event()

    def runs(number: int) -> None:
        side = alternating._Side(number)
        side.begin(baton)
        with contextlib.ExitStack() as leaving:
            leaving.callback(baton.pass_on, number, leaving=True)
            if number == 1:
                prepared.wait(10)
                seen.append("prepared")
            side(None)
            seen.append("AB"[number])

    threads = [threading.Thread(target=runs, args=(n,), daemon=True) for n in (0, 1)]
    for thread in threads:
        thread.start()
    threads[0].join(0.2)
    assert not seen
    assert threads[0].is_alive()
    prepared.set()
    for thread in threads:
        thread.join(10)
    assert seen == ["prepared", "A", "B"]


def test_a_measurement_that_begins_anew_counts_anew() -> None:
    side = alternating._Side(1)
    baton = alternating._Baton(0)
    side.begin(baton)
    baton.pass_on(0, leaving=True)
    for samples in (4, 8, 4, 8):
        side(look(samples))
    assert side.counts == {"workload 0": [4, 8]}


def measurement(levels: Sequence[float], each: int = 4) -> Measurement:
    samples = tuple(level for level in levels for _ in range(each))
    timing = WorkloadTiming("only", 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, candidate_s=samples, anchor_s=samples)
    return Measurement("ok", "tie", "device", "T0", workloads=(timing,))


def ends(stretches: int, each: int = 4) -> dict[str, list[int]]:
    return {"only": [each * n for n in range(1, stretches + 1)]}


def test_a_drift_that_both_share_cancels() -> None:
    turns = order(0)
    drift = [1.0 + 0.01 * place for place in range(len(turns))]
    old = measurement([drift[i] for i, side in enumerate(turns) if side == "A"])
    new = measurement([1.03 * drift[i] for i, side in enumerate(turns) if side == "B"])
    found = log_ratios("cuda", (old, new), (ends(STRETCHES), ends(STRETCHES)))
    assert found["only"] == pytest.approx(math.log(1.03), abs=2e-4)


def test_a_disturbed_stretch_does_not_count() -> None:
    levels = [1.0] * STRETCHES
    found = log_ratios(
        "cuda", (measurement(levels), measurement([*levels[:-1], 3.0])), (ends(STRETCHES), ends(STRETCHES))
    )
    assert found["only"] == 0.0


def test_one_long_stretch_is_compared_as_it_is() -> None:
    found = log_ratios("cuda", (measurement([1.0]), measurement([1.5])), ({}, {}))
    assert found["only"] == pytest.approx(math.log(1.5))


def test_stretches_beyond_the_other_sides_are_left_out() -> None:
    found = log_ratios("cuda", (measurement([1.0] * 2), measurement([1.0, 1.0, 9.0, 9.0])), (ends(2), ends(4)))
    assert found["only"] == 0.0


def test_others_on_a_processor_only_add() -> None:
    quiet, busy = measurement([1.0, 1.0], each=16), measurement([1.0, 1.0], each=16)
    slow = tuple(s * (1.0 if i == 20 else 1.5) for i, s in enumerate(busy.workloads[0].candidate_s))
    timing = WorkloadTiming("only", 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, candidate_s=slow, anchor_s=slow)
    disturbed = Measurement("ok", "tie", "device", "T0", workloads=(timing,))
    assert log_ratios("cpu", (quiet, disturbed), (ends(2, 16), ends(2, 16)))["only"] == 0.0
    assert log_ratios("cuda", (quiet, disturbed), (ends(2, 16), ends(2, 16)))["only"] > 0.0


@pytest.fixture(scope="module")
def pair() -> Iterator[AlternatingExecutors]:
    made = AlternatingExecutors(detect_cpu(), (sys.executable, sys.executable))
    yield made
    made.close()
    made.close()


@pytest.mark.slow
def test_both_environments_measure_the_kernel(pair: AlternatingExecutors) -> None:
    task, kernel = small_task(), cpp()
    assert all("torch" in versions for versions in pair.probe())
    subjects = [Subject(kernel, build) for build in pair.compile(task, kernel)]
    found = pair.measure(task, subjects, first=0)
    assert (found.old.status, found.new.status) == ("ok", "ok")
    assert found.log_ratios.keys() == {"even", "odd"}
    for measured in (found.old, found.new):
        assert measured.anchor == kernel.sha256
        assert measured.stopped_early
        assert len(measured.workloads[0].candidate_s) % STRETCHES == 0


@pytest.mark.slow
def test_a_kernel_that_is_wrong_on_one_side_leaves_the_other_one_alone(pair: AlternatingExecutors) -> None:
    task, kernel, wrong = small_task(), cpp(), cpp(after="y[0] = 7;")
    for first in (0, 1):
        subjects = [Subject(k, pair.compile(task, k)[n]) for n, k in enumerate((kernel, wrong))]
        found = pair.measure(task, subjects, first)
        assert (found.old.status, found.new.status) == ("ok", "incorrect")
        assert not found.log_ratios


@pytest.mark.slow
def test_a_kernel_that_never_takes_its_turn_holds_up_nobody(pair: AlternatingExecutors) -> None:
    task, kernel, broken = small_task(), cpp(), cpp("#error no\n")
    subjects = [Subject(broken, pair.compile(task, broken)[0]), Subject(kernel, pair.compile(task, kernel)[1])]
    found = pair.measure(task, subjects, first=0)
    assert (found.old.status, found.new.status) == ("compile_error", "ok")


@pytest.mark.slow
def test_a_new_round_has_new_processes(pair: AlternatingExecutors) -> None:
    before = [executor.probe() for executor in pair._executors]
    pair.renew()
    assert [executor.probe() for executor in pair._executors] == before
    task, kernel = small_task(), cpp()
    subjects = [Subject(kernel, build) for build in pair.compile(task, kernel)]
    assert pair.measure(task, subjects, first=1).log_ratios.keys() == {"even", "odd"}


@pytest.mark.slow
def test_perturbed_inputs_are_tried_once_a_side(pair: AlternatingExecutors) -> None:
    task, kernel = small_task(), cpp(before="// another one\n")
    subjects = [Subject(kernel, build) for build in pair.compile(task, kernel)]
    first, second = (pair.measure(task, subjects, first=n) for n in (0, 1))
    for one in (first.old, first.new):
        assert "zeros" in one.checks
    assert all("zeros" not in one.checks for one in (second.old, second.new))
