"""Ending a timing that cannot win: what the controller says to looks, and what the schedule makes of it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from forewarp.core.values import Target, TimingMode, Workload, WorkloadTiming
from forewarp.gpu_runner.executors import verdicts
from forewarp.gpu_runner.executors.verdicts import STOPPING_ERROR, Looks
from forewarp.gpu_runner.statistics import LOOKS, Samples
from forewarp.gpu_runner.worker.channel import LookAnswer
from forewarp.gpu_runner.worker.requests import TimingLook
from forewarp.gpu_runner.worker.stage import Stage
from forewarp.gpu_runner.worker.timing import (
    CONTROL_BLOCKS,
    EXTRA_BLOCKS,
    SIGHTING,
    Arm,
    Condition,
    Sample,
    Schedule,
    each_workload,
)

GPU = Target("a GPU", "cuda", "sm_90", 132)


def look(
    speedup: float,
    blocks: int = SIGHTING,
    index: int = 0,
    of: int = 1,
    noise: float = 0.01,
    mode: TimingMode = "stream",
    late: bool = False,
) -> TimingLook:
    """Return samples of a candidate that is so many times as fast as the anchor."""
    rng = np.random.default_rng([index, blocks])
    candidate, anchor = 1e-4 * np.exp(rng.normal(0.0, noise, (2, 2 * blocks)))
    samples = Samples(f"w{index}", tuple(candidate / speedup), tuple(anchor), 0.0, looks=5, mode=mode)
    return TimingLook(samples, index, of, sighting=blocks == SIGHTING, late=late)


def blocks(look: TimingLook) -> int:
    return len(look.samples.candidate_s) // 2


def test_with_nothing_to_beat_only_a_settled_workload_ends() -> None:
    looks = Looks(GPU)
    assert looks(look(0.7, 12, noise=0.03)) == "on"
    assert looks(look(0.7, 50)) == "enough"


def test_late_any_verdict_is_enough() -> None:
    noisy = look(0.7, 50, noise=0.08)
    assert Looks(GPU)(noisy) == "on"
    assert Looks(GPU)(replace(noisy, late=True)) == "enough"
    assert Looks(GPU)(look(1.0, 50, noise=0.08, late=True)) == "on"


def test_a_workload_whose_verdict_the_spread_between_sessions_leaves_open_goes_on() -> None:
    # A graph may be 0.1 µs off for as long as it lives: a tenth of a percent of 100 µs, 2 % of 5.
    long, short = look(1.0, 25, noise=0.007, mode="graph"), look(1.0, 25, noise=0.007, mode="graph")
    arms = [tuple(t / 20 for t in arm) for arm in (short.samples.candidate_s, short.samples.anchor_s)]
    short = replace(short, samples=replace(short.samples, candidate_s=arms[0], anchor_s=arms[1]))
    assert [Looks(GPU)(long), Looks(GPU)(short)] == ["enough", "on"]


@pytest.mark.parametrize(
    ("speedup", "said"), [(1.2, "beaten"), (1.9, "beaten"), (1.99, "on"), (2.0, "on"), (3.0, "on")]
)
def test_one_workload_is_beaten_when_its_upper_end_is_below(speedup: float, said: LookAnswer) -> None:
    assert Looks(GPU, beat=2.0)(look(speedup)) == said


def test_nothing_ends_before_every_workload_was_seen() -> None:
    looks = Looks(GPU, beat=2.0)
    assert looks(look(1.0, index=0, of=3)) == "leave"
    assert looks(look(1.5, index=1, of=3)) == "leave"
    assert looks(look(1.5, index=2, of=3)) == "beaten"


def test_a_workload_that_makes_up_for_the_others_saves_the_candidate() -> None:
    looks = Looks(GPU, beat=2.0)
    assert looks(look(1.2, index=0, of=2)) == "leave"
    assert looks(look(4.0, index=1, of=2)) == "on"
    assert looks(look(4.0, 12, index=1, of=2)) == "enough"
    assert looks(look(1.2, 12, index=0, of=2)) == "enough"


def test_what_sessions_differ_by_is_allowed_for() -> None:
    assert Looks(GPU, beat=2.0)(look(1.8)) == "beaten"
    assert Looks(GPU, beat=2.0)(look(1.8, mode="call")) == "on"
    assert Looks(GPU, beat=2.0)(look(0.8, mode="call")) == "beaten"


def test_later_tests_ask_for_more() -> None:
    first, third = Looks(GPU, beat=2.0), Looks(GPU, beat=2.0)
    for blocks in (25, 12):
        assert third(look(2.1, blocks, noise=0.03)) in ("on", "enough")
    close = look(1.93, noise=0.02)
    assert first(close) == "beaten"
    assert third(close) == "on"


def test_one_that_reaches_it_exactly_is_hardly_ever_stopped() -> None:
    rng, stopped, runs = np.random.default_rng(5), 0, 150
    for _ in range(runs):
        samples = 1e-4 * np.exp(rng.normal(0.0, 0.02, (2, 2 * LOOKS[1])))
        looks, said = Looks(GPU, beat=1.0), "on"
        for blocks in (SIGHTING, *LOOKS[:2]):
            seen, (one, two) = look(1.0, blocks), (tuple(arm[: 2 * blocks]) for arm in samples)
            said = looks(replace(seen, samples=replace(seen.samples, candidate_s=one, anchor_s=two)))
            if said != "on":
                break
        stopped += said == "beaten"
    assert stopped <= 3 * STOPPING_ERROR * runs


class Even:
    """A bench whose candidate is twice as fast, without noise; and a stage on which nothing happens."""

    conditions: tuple[Condition, ...] = ("warm",)
    slot_count = 2
    workloads = (Workload("only"),)

    def sample(self, stage: Stage, arm: Arm, slot: int, condition: Condition = "cold") -> Callable[[], Sample]:
        return lambda: ((1e-4 if arm == "candidate" else 2e-4), 0.0)

    def choose_mode(self, stage: Stage, longest_s: float) -> TimingMode:
        return "stream"

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


def run(answers: Sequence[LookAnswer], *, sighting: bool) -> tuple[Schedule, Samples, list[TimingLook]]:
    asked: list[TimingLook] = []
    left: Iterator[LookAnswer] = iter(answers)

    def ask(look: TimingLook) -> LookAnswer:
        asked.append(look)
        return next(left)

    bench = Even()
    stage = cast("Stage", bench)
    schedule = Schedule(
        bench, stage, index=0, looks=LOOKS, time_s=60.0, verify=lambda _: 0.0, ask=ask, sighting=sighting
    )
    return schedule, schedule.run(), asked


@pytest.mark.parametrize("said", ["leave", "beaten"])
def test_a_sighting_takes_few_blocks_and_no_controls(said: LookAnswer) -> None:
    schedule, result, asked = run([said], sighting=True)
    assert schedule.ended == said
    assert [(blocks(a), a.sighting) for a in asked] == [(SIGHTING, True)]
    assert len(result.candidate_s) == len(result.anchor_s) == 2 * SIGHTING
    assert result.control_anchor_s == result.warm_anchor_s == ()


def test_what_was_sighted_counts_when_timing_goes_on() -> None:
    schedule, result, asked = run(["on", "on", "enough"], sighting=True)
    assert schedule.ended == "enough"
    assert [(blocks(a), a.sighting) for a in asked] == [
        (SIGHTING, True),
        (12, False),
        (25, False),
    ]
    assert len(result.candidate_s) == 50
    assert result.looks == 5
    assert len(result.control_anchor_s) == 2 * CONTROL_BLOCKS
    assert len(result.warm_anchor_s) == 2 * EXTRA_BLOCKS


def test_timing_that_is_left_later_owes_no_controls() -> None:
    schedule, result, _ = run(["on", "beaten"], sighting=True)
    assert schedule.ended == "beaten"
    assert len(result.candidate_s) == 24
    assert result.warm_anchor_s == ()


def test_without_a_sighting_nothing_is_asked_before_the_first_look() -> None:
    _, result, asked = run(["enough"], sighting=False)
    assert [(blocks(a), a.sighting) for a in asked] == [(12, False)]
    assert len(result.control_anchor_s) == 2 * CONTROL_BLOCKS


@pytest.mark.parametrize(
    ("answers", "visits", "beaten"),
    [
        ("enough enough enough", [(0, False), (1, False), (2, False)], False),
        ("leave leave beaten", [(0, False), (1, False), (2, False)], True),
        ("leave enough enough enough", [(0, False), (1, False), (2, False), (0, True)], False),
        ("leave leave enough beaten", [(0, False), (1, False), (2, False), (0, True)], True),
        ("leave leave enough enough beaten", [(0, False), (1, False), (2, False), (0, True), (1, True)], True),
    ],
)
def test_workloads_that_were_left_come_again_unless_the_candidate_is_beaten(
    answers: str, visits: list[tuple[int, bool]], beaten: bool
) -> None:
    left, made = iter(cast("list[LookAnswer]", answers.split())), list[tuple[int, bool]]()

    def visit(index: int, again: bool) -> LookAnswer:
        made.append((index, again))
        return next(left)

    assert each_workload(3, visit) == beaten
    assert made == visits


def test_the_shares_that_tests_get_of_the_error_sum_to_no_more_than_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shares, mean = list[float](), verdicts.statistics.geometric_mean

    def asked(timings: list[WorkloadTiming], level: float) -> tuple[float, float, float]:
        assert [t.looks for t in timings] == [1]
        shares.append((1 - level) / 2)
        return mean(timings, level)

    monkeypatch.setattr(verdicts.statistics, "geometric_mean", asked)
    looks = Looks(GPU, beat=1.0)
    for _ in range(40):
        looks(look(2.0))
    assert shares[0] == pytest.approx(STOPPING_ERROR / 2)
    assert all(later < earlier for earlier, later in itertools.pairwise(shares))
    # What later ones could still get is a forty-first of it.
    assert math.fsum(shares) == pytest.approx(STOPPING_ERROR * 40 / 41)
