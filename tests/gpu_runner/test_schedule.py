"""In which order calls are timed, on which inputs, and which of them are compared."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from forewarp.core.values import TimingMode, Workload
from forewarp.gpu_runner.statistics import Samples
from forewarp.gpu_runner.worker import timing
from forewarp.gpu_runner.worker.channel import LookAnswer
from forewarp.gpu_runner.worker.requests import TimingLook
from forewarp.gpu_runner.worker.stage import Stage
from forewarp.gpu_runner.worker.timing import (
    Arm,
    Bench,
    Condition,
    Sample,
    Schedule,
    each_workload,
)

BLOCKS = 200


class Recorded:
    """A bench and a stage that take down what they are asked for."""

    conditions: tuple[Condition, ...] = ()
    slot_count = 2
    workloads = (Workload("only"),)

    def __init__(self, *, fetches: bool = False) -> None:
        self.fetches = fetches
        self.asked: list[tuple[str, str]] = []

    def sample(self, stage: Stage, arm: Arm, slot: int, condition: Condition = "cold") -> Callable[[], Sample]:
        self.asked.append(("sample", arm))
        return lambda: (1e-4, 1e9)

    def verify(self, slot: int) -> float:
        self.asked.append(("verify", str(slot)))
        return 0.0

    def choose_mode(self, stage: Stage, longest_s: float) -> TimingMode:
        self.asked.clear()  # what comes now is timed
        return "stream"

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *arguments: self.asked.append((name, str(arguments[-1]) if arguments else ""))


def scheduled(bench: Recorded, **how: Any) -> Schedule:
    return Schedule(cast("Bench", bench), cast("Stage", bench), index=0, **how)


def timed() -> tuple[Recorded, Samples]:
    bench = Recorded()
    schedule = scheduled(bench, looks=(BLOCKS,), time_s=60.0, verify=bench.verify, ask=lambda _: "enough")
    return bench, schedule.run()


def blocks(bench: Recorded) -> list[str]:
    """Return the blocks of four samples in order, such as "ABBA" (A is the candidate, B the anchor)."""
    arms = "".join("A" if what == "candidate" else "B" for name, what in bench.asked if name == "sample")
    return [arms[i : i + 4] for i in range(0, len(arms), 4)]


def test_blocks_are_mirrored_and_begin_with_either_arm() -> None:
    bench, _ = timed()
    orders = [order for order in blocks(bench) if "A" in order]
    assert len(orders) == BLOCKS
    assert set(orders) == {"ABBA", "BAAB"}
    assert 0.3 < orders.count("ABBA") / BLOCKS < 0.7


def test_some_calls_between_blocks_lose_their_inputs_where_results_are_fetched() -> None:
    """They are on new inputs and compared, and their seconds are not kept."""
    bench = Recorded(fetches=True)
    schedule = scheduled(bench, looks=(BLOCKS,), time_s=60.0, verify=bench.verify, ask=lambda _: "enough")
    assert len(schedule.run().candidate_s) == 2 * BLOCKS
    asked = [name for name, _ in bench.asked]
    spoilt = [i for i, name in enumerate(asked) if name == "try_spoilt"]
    assert 1 <= len(spoilt) < BLOCKS / 4
    assert all(asked[i - 3 : i + 2] == ["renew", "prepare", "prepare", "try_spoilt", "verify"] for i in spoilt)


def test_controls_lie_between_the_blocks() -> None:
    bench, _ = timed()
    kinds = ["control" if order == "BBBB" else "block" for order in blocks(bench)]
    assert kinds == ["block", "control"] * 20 + ["block"] * (BLOCKS - 20)


def test_two_processes_of_one_kernel_need_no_controls() -> None:
    bench = Recorded()
    scheduled(bench, looks=(BLOCKS,), controls=0, time_s=60.0, verify=bench.verify, ask=lambda _: "enough").run()
    assert not blocks(bench).count("BBBB")


def test_a_timing_that_ends_early_still_gets_all_its_controls() -> None:
    bench = Recorded()
    schedule = scheduled(bench, looks=(12, BLOCKS), time_s=60.0, verify=lambda _: 0.0, ask=lambda _: "enough")
    samples = schedule.run()
    assert samples.candidate_s == 2 * 12 * (1e-4,)
    assert samples.candidate_hz == 2 * 12 * (1e9,)
    assert blocks(bench).count("BBBB") == 20


@pytest.mark.parametrize(
    ("number", "took_s", "below"),
    [
        (0, 0.0, 0.13),
        (24, 0.5, 0.13),
        (0, 2.0, 0.13 / 4),
        (25, 0.0, 0.02),
        (BLOCKS, 5.0, 0.02 / 10),
    ],
)
def test_a_comparison_is_rarer_later_and_where_it_takes_long(number: int, took_s: float, below: float) -> None:
    for drawn, count in ((below - 1e-6, 2), (below + 1e-6, 0)):
        bench = Recorded()
        schedule = scheduled(bench, looks=(1,), time_s=1.0, verify=bench.verify, ask=lambda _: "on")
        schedule.verify_s = took_s
        schedule.chance = cast(
            "Any", SimpleNamespace(random=lambda drawn=drawn: drawn, randrange=lambda _: 0, choice=min)
        )
        schedule._block(number, first=False, last=False)
        assert [name for name, _ in bench.asked].count("verify") == count


@pytest.mark.parametrize(("pair_s", "looks"), [(0.01, (12, 25, 50)), (0.02, (12, 25)), (0.1, (12,)), (0.4, (6,))])
def test_looks_are_those_that_fit_into_the_time_and_slow_kernels_get_one_at_few_blocks(
    pair_s: float, looks: tuple[int, ...]
) -> None:
    schedule = scheduled(Recorded(), looks=(12, 25, 50), time_s=1.0, verify=lambda _: 0.0, ask=lambda _: "on")
    assert schedule._affordable(1.0, pair_s, (12, 25, 50)) == looks


def test_calls_are_compared_at_random_and_at_both_ends() -> None:
    bench, _ = timed()
    names = [name for name, _ in bench.asked if name in ("sample", "verify")]
    # Of the first 25 blocks an eighth, of later ones one in fifty.
    assert 6 <= names.count("verify") <= 40
    calls = [i for i, (name, what) in enumerate(bench.asked) if (name, what) == ("sample", "candidate")]
    compared = [bench.asked[i + 1][0] == "verify" for i in calls]
    assert compared[0]
    assert compared[-1]
    assert any(compared[1:-1])


def test_no_input_tells_whether_a_call_is_compared() -> None:
    bench, result = timed()
    names = [name for name, _ in bench.asked]
    assert "redraw" not in names
    assert "touch" not in names
    assert names.count("renew") == len(result.candidate_s) + len(result.anchor_s) == 4 * BLOCKS


def test_both_arms_are_made_ready_for_every_call_its_own_last() -> None:
    bench, _ = timed()
    ready: list[str] = []
    for name, what in bench.asked:
        if name == "prepare":
            ready.append(what)
        elif name == "sample":
            assert ready == (["anchor", "candidate"] if what == "candidate" else ["candidate", "anchor"])
            ready.clear()


def test_inputs_and_the_bytes_beside_buffers_are_looked_at_when_timing_is_over() -> None:
    bench, _ = timed()
    names = [name for name, _ in bench.asked]
    last = len(names) - names[::-1].index("sample")
    assert {"check_inputs", "check_guards", "check_reference"} <= set(names[last:])


def test_a_sighting_is_compared_at_both_ends_and_may_be_the_last() -> None:
    bench, said = Recorded(), list[TimingLook]()

    def leave(look: TimingLook) -> LookAnswer:
        said.append(look)
        return "leave"

    schedule = scheduled(bench, looks=(BLOCKS,), time_s=60.0, verify=bench.verify, ask=leave, sighting=True)
    schedule.chance.random = lambda: 0.99  # nothing is compared by chance
    schedule.run()
    assert [look.sighting for look in said] == [True]
    assert len(blocks(bench)) == 8
    calls = [i for i, asked in enumerate(bench.asked) if asked == ("sample", "candidate")]
    compared = [bench.asked[i + 1][0] == "verify" for i in calls]
    assert compared == [True, *[False] * (2 * 8 - 2), True]
    assert schedule.ended == "leave"


@pytest.mark.parametrize(
    ("mode", "planned", "late"), [("native", [96, 200, 400], [True, True]), ("call", [12, 25], [False])]
)
def test_native_code_is_timed_on_while_its_verdict_is_open(
    mode: TimingMode, planned: list[int], late: list[bool]
) -> None:
    class Slow(Recorded):
        def choose_mode(self, stage: Stage, longest_s: float) -> TimingMode:
            return mode

    said = list[tuple[int, bool]]()

    def on(look: TimingLook) -> LookAnswer:
        said.append((len(look.samples.candidate_s) // 2, look.late))
        return "on"

    bench = Slow()
    schedule = scheduled(bench, looks=(12, 25, 50), time_s=0.25, verify=lambda _: 0.0, ask=on)
    schedule._pilot = lambda: (0.25 / 2 / 26, 1e-3)  # one block fits 26 times into the time
    result = schedule.run()
    assert len(result.candidate_s) == 2 * planned[-1]
    assert said == list(zip(planned[:-1], late, strict=True))


def lasting(monkeypatch: pytest.MonkeyPatch, sample_s: float, conditions: tuple[Condition, ...] = ()) -> Recorded:
    """Return a bench each of whose samples takes so many seconds of a clock that only they move."""
    now = [0.0]

    class Lasting(Recorded):
        def sample(self, stage: Stage, arm: Arm, slot: int, condition: Condition = "cold") -> Callable[[], Sample]:
            now[0] += sample_s
            return super().sample(stage, arm, slot, condition)

        def verify(self, slot: int) -> float:
            now[0] += 2.0
            return super().verify(slot)

    monkeypatch.setattr(timing, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    bench = Lasting()
    bench.conditions = conditions
    return bench


def test_native_code_that_took_longer_is_timed_warm_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pair_s = 0.25 / 2 / 26
    bench = lasting(monkeypatch, pair_s / 2, ("warm",))
    bench.choose_mode = lambda stage, longest_s: "native"
    schedule = scheduled(bench, looks=(12, 25), time_s=0.25, verify=lambda _: 0.0, ask=lambda _: "on")
    schedule._pilot = lambda: (pair_s, 1e-3)
    result = schedule.run()
    assert timing.time.perf_counter() > 0.25
    assert result.warm_candidate_s


@pytest.mark.parametrize(
    ("mode", "longest_s", "times"), [("graph", 40e-6, 4), ("graph", 60e-6, 1), ("stream", 40e-6, 1)]
)
def test_short_kernels_in_graphs_get_four_times_the_blocks(mode: TimingMode, longest_s: float, times: int) -> None:
    class Short(Recorded):
        def choose_mode(self, stage: Stage, longest_s: float) -> TimingMode:
            return mode

    said = list[int]()

    def on(look: TimingLook) -> LookAnswer:
        said.append(len(look.samples.candidate_s) // 2)
        return "on"

    bench = Short()
    schedule = scheduled(bench, looks=(12, 25), time_s=60.0, verify=lambda _: 0.0, ask=on, sighting=True)
    schedule._pilot = lambda: (1e-4, longest_s)
    assert len(schedule.run().candidate_s) == 2 * 25 * times
    assert said == [8 * times, 12 * times]


def test_chains_get_twice_the_time_and_cost_what_a_second_pilot_says() -> None:
    class Chained(Recorded):
        def choose_mode(self, stage: Stage, longest_s: float) -> TimingMode:
            return "chain"

    pilots = iter([(10.0, 1e-3), (0.025, 1e-3)])
    schedule = scheduled(
        Chained(), looks=(12, 18, 25), time_s=0.5, verify=lambda _: 0.0, ask=lambda _: cast("LookAnswer", "on")
    )
    schedule._pilot = lambda: next(pilots)
    # A block is two pairs: in one second there are 20.
    assert len(schedule.run().candidate_s) == 2 * 18


def test_the_pilot_tells_no_first_call_of_an_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, taken = lasting(monkeypatch, 0.25), iter([9.0, 9.0, 2e-4, 3e-4, 1e-4, 1e-4])
    bench.sample = lambda *how: lambda: (next(taken), 0.0)
    bench_s = scheduled(bench, looks=(12,), time_s=1.0, verify=lambda _: 0.0, ask=lambda _: "on")._pilot()
    assert bench_s == (0.0, 3e-4)
    # The first pair loads, and the fastest of the others tells: one that another process held up does not.
    pair_s, _ = scheduled(
        lasting(monkeypatch, 0.25), looks=(12,), time_s=1.0, verify=lambda _: 0.0, ask=lambda _: "on"
    )._pilot()
    assert pair_s == 0.5


def test_what_a_full_timing_owes_is_taken_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four blocks and four controls take 3.2 s of the 5: more controls fit in, but nothing under other conditions."""
    bench = lasting(monkeypatch, 0.1, ("warm",))
    schedule = scheduled(bench, looks=(4, 200), time_s=5.0, verify=lambda _: 0.0, ask=lambda _: "enough")
    schedule._pilot = lambda: (0.2, 0.1)
    result = schedule.run()
    assert len(result.candidate_s) == 2 * 4
    assert 3.2 + 0.4 * (len(result.control_anchor_s) / 2 - 4) == pytest.approx(5.0, abs=0.4)
    assert result.warm_anchor_s == ()


def test_a_condition_that_was_begun_in_time_is_timed_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = lasting(monkeypatch, 0.1, ("warm", "launched"))
    schedule = scheduled(bench, looks=(20, 200), time_s=16.5, verify=lambda _: 0.0, ask=lambda _: "enough")
    schedule._pilot = lambda: (0.01, 0.1)
    result = schedule.run()
    assert len(result.control_anchor_s) == 2 * 20
    assert len(result.warm_candidate_s) == len(result.warm_anchor_s) == 2 * 8
    assert result.launched_anchor_s == ()


def test_a_sighting_takes_no_more_blocks_than_the_first_look() -> None:
    said = list[int]()

    def on(look: TimingLook) -> LookAnswer:
        said.append(len(look.samples.candidate_s) // 2)
        return "on"

    scheduled(Recorded(), looks=(4, 12), time_s=60.0, verify=lambda _: 0.0, ask=on, sighting=True).run()
    assert said == [4, 4]


def test_the_largest_error_of_the_outputs_compared_is_kept() -> None:
    errors = iter([0.25, 0.5, *[0.125] * BLOCKS])
    schedule = scheduled(
        Recorded(), looks=(4, 8), time_s=60.0, verify=lambda _: next(errors), ask=lambda _: cast("LookAnswer", "on")
    )
    assert schedule.run().error_ratio == 0.5


def test_how_long_a_comparison_takes_is_known_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = lasting(monkeypatch, 0.1)
    schedule = scheduled(bench, looks=(12,), time_s=5.0, verify=bench.verify, ask=lambda _: "on")
    schedule._block(0, first=False, last=True)
    assert schedule.verify_s == pytest.approx(2.0)


def test_what_was_left_is_timed_once_more_unless_the_candidate_is_beaten() -> None:
    visits: list[tuple[int, bool]] = []

    def visit(index: int, again: bool) -> LookAnswer:
        visits.append((index, again))
        return "enough" if again or index == 1 else "leave"

    assert not each_workload(3, visit)
    assert visits == [(0, False), (1, False), (2, False), (0, True), (2, True)]
    assert each_workload(2, lambda index, again: "leave" if index == 0 else "beaten")
