"""Verdicts on a judge's samples: trusted, suspicious or impossible."""

from __future__ import annotations

import contextlib
import math
from dataclasses import replace

import pytest
from support.small_tasks import small_task

from forewarp.core import serde
from forewarp.core.errors import TaskError, UsageError, WorkerError
from forewarp.core.values import Build, Measurement, Signature, Target, TensorSpec, TimingMode
from forewarp.gpu_runner.devices import detect_cpu, known_targets
from forewarp.gpu_runner.executors import verdicts
from forewarp.gpu_runner.executors.client import Reply
from forewarp.gpu_runner.executors.verdicts import measurement_without_times, session_sd, timings_of, with_times
from forewarp.gpu_runner.statistics import NO_TIME, Samples
from forewarp.gpu_runner.worker.channel import MACHINE
from forewarp.gpu_runner.worker.requests import Judgement

TENSOR = TensorSpec("x", (1 << 20,), "float32")


def answer(candidate_s: float, anchor_s: float, *flags: str) -> Judgement:
    """Return a judge's answer with 50 blocks of equal samples."""
    samples = Samples("only", 100 * (candidate_s,), 100 * (anchor_s,), 0.1, mode="graph")
    return Judgement(status="ok", tier="T0", timings=(samples,), flags=flags)


def measured(document: Judgement, bytes_moved: int = 8 << 20) -> Measurement:
    target = known_targets()["h200"]
    signature = Signature("only", (TENSOR,), {}, {}, (), (TENSOR,), None, bytes_moved)
    correct = measurement_without_times("ok", "", target, anchor="reference", phases={}, judged=document)
    return with_times(correct, document, [signature], target)


def replied(document: Judgement, log: str = "", target: Target | None = None) -> Measurement:
    reply = Reply(serde.to_data(document), log, 2.0, 0.5)
    signature = Signature("only", (TENSOR,), {}, {}, (), (TENSOR,), None, 8 << 20)
    return verdicts.measurement_of(
        *(reply, small_task(), target or known_targets()["h200"], [signature], Build("ok", 3.0)),
        anchor="reference",
        limit_s=60.0,
        environment={"torch": "2.13"},
    )


def test_a_reply_becomes_a_measurement_with_all_that_it_took() -> None:
    found = replied(answer(50e-6, 100e-6))
    assert (found.status, found.verdict) == ("ok", "faster")
    assert found.phases | {"compile": 3.0, "spawn": 0.5, "total": 5.0} == found.phases
    assert found.environment["torch"] == "2.13"
    found = replied(Judgement(status="incorrect", tier="T0", log="off by one"))
    assert (found.status, found.verdict, found.speedup) == ("incorrect", "incorrect", None)


@pytest.mark.parametrize(
    ("status", "error", "word"),
    [
        (MACHINE, WorkerError, "nothing is recorded"),
        ("anchor_wrong", UsageError, "measure against is itself incorrect"),
        ("reference_failed", TaskError, "the candidate is not to blame"),
    ],
)
def test_what_is_not_the_candidates_fault_is_no_measurement(status: str, error: type[Exception], word: str) -> None:
    with pytest.raises(error, match=word) as raised:
        replied(Judgement(status=status, tier="T0", log="memory"))
    if isinstance(raised.value, WorkerError):
        assert raised.value.lost_s == 2.0


def test_a_module_that_launches_triton_kernels_where_no_gpu_is_needs_one() -> None:
    failed = Judgement(status="runtime_error", tier="T0", log="RuntimeError: 0 active drivers ([])")
    assert "which need a GPU" not in replied(failed).log
    assert replied(failed, target=detect_cpu()).log.startswith("error: it launches Triton kernels, which need a GPU")


@pytest.mark.parametrize("status", ["crashed", "runtime_error", "timeout"])
def test_a_program_that_throws_for_want_of_memory_is_out_of_it(status: str) -> None:
    thrown = "terminate called after throwing an instance of 'std::bad_alloc'"
    assert replied(Judgement(status=status, tier="T0"), thrown).status == "out_of_memory"
    assert replied(answer(50e-6, 100e-6), thrown).status == "ok"


def test_a_mode_without_a_known_spread_has_none() -> None:
    assert session_sd(known_targets()["h200"], Samples("only", 24 * (1e-4,), 24 * (1e-4,), 0.0, mode="native")) == 0.0
    assert session_sd(detect_cpu(), Samples("only", 24 * (1e-4,), 24 * (1e-4,), 0.0, mode="stream"), 2.0) == 0.0


def test_a_timing_that_ended_early_had_a_look_more() -> None:
    planned = replace(answer(50e-6, 100e-6).timings[0], looks=4)
    looks = [
        timings_of(Judgement(status="ok", timings=(planned,), stopped_early=early), known_targets()["h200"])[0].looks
        for early in (False, True)
    ]
    assert looks == [4, 5]


def test_a_clear_gain_is_faster() -> None:
    found = measured(answer(50e-6, 100e-6))
    assert found.verdict == "faster"
    assert found.speedup == pytest.approx(2.0)


def test_what_speaks_against_a_time_makes_it_suspicious() -> None:
    found = measured(answer(50e-6, 100e-6, "its own clock says otherwise"))
    assert found.verdict == "suspicious"
    assert "its own clock says otherwise" in found.log


def test_a_time_below_the_roofline_is_impossible() -> None:
    found = measured(answer(0.5e-6, 100e-6))
    assert found.verdict == found.workloads[0].verdict == "impossible"
    assert "0.5 µs is below the floor of 0.9 µs" in found.log


def test_where_the_reference_beats_the_floor_the_floor_does_not_hold() -> None:
    assert measured(answer(50e-6, 100e-6), bytes_moved=8 << 30).verdict == "faster"


@pytest.mark.parametrize(
    ("status", "verdict"), [("incorrect", "incorrect"), ("crashed", "failed"), ("timeout", "failed")]
)
def test_what_was_never_timed_failed_unless_it_is_wrong(status: str, verdict: str) -> None:
    found = measurement_without_times(
        status, "why", known_targets()["h200"], anchor="reference", phases={}, environment={"torch": "2.11"}
    )
    assert (found.status, found.verdict, found.speedup) == (status, verdict, None)
    assert found.environment == {"torch": "2.11"}


def test_a_time_at_the_floor_is_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "floor_s", lambda signature, target: 50e-6)
    assert measured(answer(50e-6, 100e-6)).verdict == "faster"
    assert measured(answer(49e-6, 100e-6)).verdict == "impossible"
    assert measured(answer(49e-6, 50e-6)).verdict == "impossible"
    assert measured(answer(30e-6, 49e-6)).verdict == "faster"


@pytest.mark.parametrize(
    ("mode", "kind", "percent"),
    [
        ("stream", "cuda", 0.1),
        ("graph", "cuda", math.hypot(0.1, 0.1)),
        ("chain", "cuda", math.hypot(0.1, 0.02)),
        ("burst", "cuda", math.hypot(0.5, 1.0)),
        ("call", "cuda", math.hypot(5.0, 15.0)),
        ("call", "cpu", 3.0),
        ("native", "cpu", math.hypot(0.15, 5.0)),
    ],
)
def test_sessions_differ_by_a_share_and_by_an_offset(mode: TimingMode, kind: str, percent: float) -> None:
    target = known_targets()["h200"] if kind == "cuda" else detect_cpu()
    samples = Samples("only", 24 * (100e-6,), 24 * (100e-6,), 0.0, mode=mode)
    assert session_sd(target, samples) == pytest.approx(percent / 100)


@pytest.mark.parametrize(
    ("mode", "kind", "percent"), [("native", "cpu", 0.2), ("call", "cpu", 2.0), ("call", "cuda", 0.0)]
)
def test_processors_that_others_keep_busy_make_a_cpu_less_sure(mode: TimingMode, kind: str, percent: float) -> None:
    target = known_targets()["h200"] if kind == "cuda" else detect_cpu()
    samples = replace(answer(100e-6, 100e-6).timings[0], mode=mode)
    alone = session_sd(target, samples)
    for conditions, more in (({}, 0.0), ({"other_processors": 2.0}, percent / 100)):
        (timed,) = timings_of(Judgement(status="ok", timings=(samples,), conditions=conditions), target)
        assert timed.session_sd == pytest.approx(math.hypot(alone, more))


def test_native_code_of_which_every_call_counts_says_so_and_is_less_sure() -> None:
    samples = Samples("only", 50 * (100e-6, 300e-6), 100 * (200e-6,), 0.0, mode="native")
    assert session_sd(detect_cpu(), samples) == pytest.approx(math.hypot(0.005, 5e-6 / 200e-6))
    # One and two percent for one and two busy processes, a third of one without any.
    assert session_sd(detect_cpu(), samples, 2.0) == pytest.approx(math.hypot(0.005, 5e-6 / 200e-6, 0.02))
    found = measured(Judgement(status="ok", tier="T1", timings=(samples,)))
    assert found.speedup == pytest.approx(1.0)
    assert found.checks == (f"only: {verdicts.UNEVEN_CALLS}",)


@pytest.mark.parametrize(
    ("candidate_s", "reason"),
    [
        (50 * (NO_TIME, 40e-6), "of 200 timed calls 50 came out with no time at all"),
        (tuple(40e-6 * 10 ** (4 * math.sin(i)) for i in range(100)), "the times tell nothing"),
    ],
)
def test_a_clock_that_gave_no_times_is_nobodys_cheat(candidate_s: tuple[float, ...], reason: str) -> None:
    """So it was on a GPU whose memory other processes had filled: an honest kernel came out below the floor."""
    judged = answer(40e-6, 100e-6)
    document = replace(judged, timings=(replace(judged.timings[0], candidate_s=candidate_s),))
    with pytest.raises(WorkerError, match=reason) as raised:
        measured(document)
    assert "neither task nor candidate is to blame" in str(raised.value)
    assert "run the command again" in str(raised.value.hint)
    # In a cell the candidate can reach the clock: it may be to blame.
    assert measured(replace(document, tier="T1")).status == "ok"


@pytest.mark.parametrize(("lost", "fails"), [(20, False), (21, True)])
def test_a_tenth_of_the_calls_may_come_out_without_a_time(lost: int, fails: bool) -> None:
    judged = answer(40e-6, 100e-6)
    candidate = lost // 2 * (NO_TIME,) + (lost - lost // 2) * (NO_TIME / 2,) + (100 - lost) * (40e-6,)
    document = replace(judged, timings=(replace(judged.timings[0], candidate_s=candidate),))
    with pytest.raises(WorkerError, match="came out with no time") if fails else contextlib.nullcontext():
        assert measured(document, bytes_moved=0).status == "ok"
