from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats
from scipy.stats import mstats

from forewarp.core.values import Verdict
from forewarp.gpu_runner import statistics
from forewarp.gpu_runner.statistics import PairedSamples, Samples
from forewarp.gpu_runner.worker.timing import SIGHTING


def noisy(gap: float, blocks: int, noise: float, seed: int = 0) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Candidate's and anchor's seconds; the candidate is exp(gap) times faster."""
    rng = np.random.default_rng(seed)
    candidate = 1e-4 * np.exp(rng.normal(-gap, noise, 2 * blocks))
    anchor = 1e-4 * np.exp(rng.normal(0.0, noise, 2 * blocks))
    return tuple(candidate.tolist()), tuple(anchor.tolist())


def samples(gap: float, blocks: int = 50, noise: float = 0.01, seed: int = 0) -> Samples:
    candidate, anchor = noisy(gap, blocks, noise, seed)
    return Samples("w", candidate, anchor, 0.0)


def steady(values: Sequence[float], hz: float = 1.9e9) -> tuple[float, ...]:
    return (hz,) * len(values)


def test_block_log_ratio_by_hand() -> None:
    # Two blocks; candidate 1 s and 4 s (geometric mean 2), anchor 8 s twice: log(8/2); then equal arms: 0.
    ratios = PairedSamples([1.0, 4.0, 3.0, 3.0], [8.0, 8.0, 3.0, 3.0]).log_ratios()
    assert ratios == pytest.approx([math.log(4), 0.0])


def of_ratios(ratios: Sequence[float]) -> PairedSamples:
    """Return blocks with these log-ratios, of which no two have the same times: a fine timer's."""
    candidate = 1e-4 * (1 + 1e-6 * np.arange(len(ratios)))
    return PairedSamples(np.repeat(candidate, 2), np.repeat(candidate * np.exp(ratios), 2))


def test_error_of_four_blocks_by_hand() -> None:
    # Nothing is trimmed of four. Squares sum to 20; stretches are three long, so that neighbours count by two thirds
    # (products sum to 5) and those next to them by a third (products sum to -6), in both directions.
    estimate = of_ratios([-0.03, -0.01, 0.01, 0.03]).estimate()
    variance = (20 / 3 + 2 * (5 * 2 / 3 - 6 / 3) / 3) * 1e-4
    assert estimate.centre == pytest.approx(0.0, abs=1e-9)
    assert estimate.error == pytest.approx(math.sqrt(variance / 4), rel=1e-4)


@pytest.mark.parametrize("blocks", [10, 15, 30])
def test_blocks_that_share_nothing_have_tukeys_and_mclaughlins_interval(blocks: int) -> None:
    ordered = np.sort(np.random.default_rng(blocks).normal(0.02, 0.01, blocks))
    # High and low in turn: neighbours are less alike than chance has it, for which nothing is taken off.
    ratios = [float(ordered[i // 2 if i % 2 else -1 - i // 2]) for i in range(blocks)]
    low, high = mstats.trimmed_mean_ci(ratios, limits=(0.2, 0.2), alpha=0.05)
    estimate = of_ratios(ratios).estimate()
    assert estimate.centre == pytest.approx((low + high) / 2)
    assert estimate.half_width(0.95) == pytest.approx((high - low) / 2, rel=0.005)


def test_drift_cancels_within_a_block() -> None:
    # The clock slows by 1 % a sample in ABBA order: candidate takes samples 0 and 3, anchor 1 and 2.
    drift = [1.01**i for i in range(40)]
    candidate = tuple(drift[i] for b in range(10) for i in (4 * b, 4 * b + 3))
    anchor = tuple(2 * drift[i] for b in range(10) for i in (4 * b + 1, 4 * b + 2))
    timed = statistics.timing(Samples("w", candidate, anchor, 0.0))
    assert timed.speedup == pytest.approx(2.0, rel=1e-9)
    assert (timed.low, timed.high) == pytest.approx((2.0, 2.0), rel=1e-9)


@pytest.mark.parametrize("blocks", [4, 12, 25, 200])
def test_swapping_the_arms_inverts_everything(blocks: int) -> None:
    one = samples(0.03, blocks)
    there = statistics.timing(one)
    back = statistics.timing(replace(one, candidate_s=one.anchor_s, anchor_s=one.candidate_s))
    assert (back.speedup, back.low, back.high) == pytest.approx((1 / there.speedup, 1 / there.high, 1 / there.low))
    assert {there.verdict, back.verdict} in ({"faster", "slower"}, {"inconclusive"})


def test_the_unit_of_time_does_not_matter() -> None:
    one = samples(0.03)
    scaled = replace(
        one, candidate_s=tuple(1e3 * s for s in one.candidate_s), anchor_s=tuple(1e3 * s for s in one.anchor_s)
    )
    assert statistics.timing(scaled).log_ratios == pytest.approx(statistics.timing(one).log_ratios)


@pytest.mark.parametrize("factor", [1.5, 50.0, 1e6])
def test_an_outlier_counts_the_same_however_far_out(factor: float) -> None:
    candidate, anchor = noisy(0.02, 12, 0.002)
    spoilt = (candidate[0] * factor, *candidate[1:])
    timed, clean = (
        statistics.compare(PairedSamples(spoilt, anchor)),
        statistics.compare(PairedSamples(candidate, anchor)),
    )
    assert timed.speedup == pytest.approx(clean.speedup, rel=2e-3)
    assert timed.high - timed.low < 2 * (clean.high - clean.low)


def native(slow: Callable[[int], bool], factor: float = 3.0, blocks: int = 96, held_up: float = 0.3) -> Samples:
    """Candidate whose calls are slow by their number, beside an anchor; other processes hold both up, at random."""
    rng = np.random.default_rng(blocks)
    delays = [1 + 0.5 * (rng.random(2 * blocks) < held_up) for _ in range(2)]
    quick, anchor = noisy(0.0, blocks, 0.002)
    calls = np.asarray(quick) * [factor if slow(i) else 1.0 for i in range(2 * blocks)] * delays[0]
    return Samples("w", tuple(calls.tolist()), tuple((anchor * delays[1]).tolist()), 0.0, mode="native")


def test_a_call_of_native_code_that_was_held_up_does_not_count() -> None:
    """Other processes hold up three calls in ten by half, of both arms."""
    even = native(lambda i: False)
    timed = statistics.timing(even)
    assert not statistics.pairs_of(even).all_count()
    assert timed.speedup == pytest.approx(1.0, abs=0.005)
    by_means = statistics.timing(replace(even, mode="call"))
    assert timed.high - timed.low < (by_means.high - by_means.low) / 2


@pytest.mark.parametrize(
    ("slow", "share"),
    [
        (lambda i: i % 2 == 0, 1 / 2),
        (lambda i: (i + i // 8) % 2 == 0, 1 / 2),
        (lambda i: i % 3 == 0, 1 / 3),
        (lambda i: i % 10 == 0, 1 / 10),
    ],
    ids=["every second", "every second, shifted now and then", "every third", "every tenth"],
)
@pytest.mark.parametrize("busy", [0.0, 0.3])
def test_calls_that_are_slow_now_and_then_all_count(slow: Callable[[int], bool], share: float, busy: float) -> None:
    """By the shorter of two calls, half of the work or more would go uncounted."""
    blocks = 96 if share > 0.1 else 400
    timed = statistics.timing(native(slow, blocks=blocks, held_up=busy))
    assert timed.speedup == pytest.approx(1 / (1 + 2 * share), rel=0.08)
    assert timed.low < 1 / (1 + 2 * share) < timed.high


def test_only_native_code_has_calls_that_all_count() -> None:
    uneven = native(lambda i: i % 2 == 0)
    assert statistics.pairs_of(uneven).all_count()
    assert not any(statistics.pairs_of(replace(uneven, mode=mode)).all_count() for mode in ("call", "stream", "graph"))
    # Half of the calls take three times as long: twice as long on the mean, of which nothing is trimmed.
    assert statistics.compare(statistics.pairs_of(uneven)).speedup == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("arms", [replace(samples(0.0), mode="stream"), native(lambda i: i % 2 == 0)])
def test_what_sessions_differ_by_is_all_in_the_interval_but_of_even_native_code(arms: Samples) -> None:
    alone, wider = (statistics.timing(replace(arms, session_sd=sd)) for sd in (0.0, 0.05))
    error = statistics.pairs_of(arms).estimate().error
    ratio = math.log(wider.high / wider.low) / math.log(alone.high / alone.low)
    assert ratio == pytest.approx(math.hypot(error, 0.05) / error)


@pytest.mark.parametrize(("blocks", "all_count"), [(11, True), (12, False)])
def test_twelve_blocks_tell_whether_calls_are_even(blocks: int, all_count: bool) -> None:
    assert statistics.pairs_of(replace(samples(0.0, blocks), mode="native")).all_count() == all_count


def test_few_blocks_of_native_code_leave_no_call_out() -> None:
    """Six blocks are too few to tell noise from a candidate that is slow every second time."""
    assert statistics.timing(native(lambda i: i % 2 == 0, blocks=6, held_up=0.0)).speedup == pytest.approx(
        0.5, rel=0.05
    )


@pytest.mark.parametrize("held_up", [0.02, 0.3])
def test_equal_native_arms_are_seldom_called_uneven(held_up: float) -> None:
    rng, uneven = np.random.default_rng(3), 0
    for _ in range(500):
        arms = np.exp(
            rng.normal(0.0, 0.01, (2, 200)) + 0.7 * rng.exponential(1, (2, 200)) * (rng.random((2, 200)) < held_up)
        )
        uneven += PairedSamples(arms[0], arms[1], "native").all_count()
    assert uneven <= 11


def ticked(values: Sequence[float], tick: float) -> tuple[float, ...]:
    return tuple(round(v / tick) * tick for v in values)


def test_a_coarse_timer_is_not_taken_for_certainty() -> None:
    # 100 us at 0.1 % noise and ticks of 2 us: all samples fall on one tick, and so would those of a 0.8 % slower arm.
    candidate, anchor = noisy(-0.008, 100, 0.001)
    same = statistics.compare(PairedSamples(ticked(candidate, 2e-6), ticked(anchor, 2e-6)))
    assert same.speedup == pytest.approx(1.0)
    assert same.low < math.exp(-0.008) < same.high
    one = Samples("w", ticked(candidate, 2e-6), ticked(anchor, 2e-6), 0.0)
    assert statistics.timing(one).verdict == "inconclusive"
    assert statistics.settled(replace(one, looks=5)) == ""


@pytest.mark.parametrize(("noise", "most"), [(0.0, 1.0), (0.1, 0.9), (0.2, 0.7), (0.3, 0.5), (0.5, 0.2)])
def test_the_grain_covers_what_rounding_leaves_and_falls_with_noise(noise: float, most: float) -> None:
    """Variance of the error that rounding leaves in two means of 100 µs, over all places between ticks of 2 µs."""
    rng, grains, left, ticks = np.random.default_rng(0), list[float](), list[float](), np.arange(40, 61)
    for place in np.linspace(50.0, 51.0, 40, endpoint=False):
        arms = [np.round(place + noise * rng.normal(size=400)) for _ in range(2)]
        arms[0][:2] = 50.0, 51.0  # so that the tick can be seen
        grains.append(PairedSamples(2e-6 * arms[0], 2e-6 * arms[1]).grain())
        edges = stats.norm.cdf((np.arange(39.5, 61.5) - place) / noise) if noise else np.arange(39.5, 61.5) > place
        mean = float(ticks @ np.diff(edges.astype(float)))
        left.append(2 * (mean / place - 1) ** 2)
    whole = 2 * (1 / 50.5) ** 2 / 12
    assert 0.99 * np.mean(left) <= np.mean(grains) <= 1.01 * most * whole
    assert noise or np.mean(left) == pytest.approx(whole, rel=0.01)


def test_the_grain_falls_off_as_roundings_first_harmonic() -> None:
    """By hand: 90 of 100 samples on a tick, 10 on the next: the 5 to 95 % range is a tick, of which half counts."""
    grain = PairedSamples([50.0] * 90 + [51.0] * 10, [50.0] * 100).grain()
    noise = 0.5 / 3.2897
    assert grain == pytest.approx((1 / 50) ** 2 / 12 * (1 + math.exp(-((2 * math.pi * noise) ** 2))))


def test_ticks_below_the_noise_cost_nothing() -> None:
    candidate, anchor = noisy(0.02, 100, 0.01)
    fine = statistics.compare(PairedSamples(ticked(candidate, 5e-7), ticked(anchor, 5e-7)))
    exact = statistics.compare(PairedSamples(candidate, anchor))
    assert math.log(fine.high / fine.low) == pytest.approx(math.log(exact.high / exact.low), rel=0.05)


def test_compare_keeps_every_sample() -> None:
    candidate, anchor = noisy(0.0, 12, 0.01)
    compared = statistics.compare(PairedSamples(candidate, anchor))
    assert (compared.candidate_s, compared.anchor_s) == (candidate, anchor)
    assert compared.low < compared.speedup < compared.high


def test_too_few_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="3 blocks give no interval"):
        statistics.compare(PairedSamples([1.0] * 6, [1.0] * 6))


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_impossible_times_are_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="not a positive, finite number"):
        statistics.compare(PairedSamples([1.0] * 7 + [bad], [1.0] * 8))


@pytest.mark.parametrize("lengths", [(10, 12), (12, 10)])
def test_arms_of_different_length_are_refused(lengths: tuple[int, int]) -> None:
    shapes = " and ".join(f"({length // 2}, 2)" for length in lengths)
    with pytest.raises(ValueError, match=re.escape(f"the arms differ in shape: {shapes}")):
        statistics.compare(PairedSamples([1.0] * lengths[0], [1.0] * lengths[1]))


def test_other_pairs_need_four_blocks_to_be_compared() -> None:
    three, four = noisy(0.0, 3, 0.01), noisy(0.0, 4, 0.01)
    few = replace(samples(0.0), control_candidate_s=three[0], control_anchor_s=three[1])
    enough = replace(samples(0.0), control_candidate_s=four[0], control_anchor_s=four[1])
    assert statistics.timing(few).control is None
    assert statistics.timing(enough).control == statistics.compare(PairedSamples(*four))


def test_neighbours_that_resemble_each_other_widen_the_interval() -> None:
    candidate, anchor = noisy(0.0, 200, 0.01)
    order = np.argsort(PairedSamples(candidate, anchor).log_ratios())
    sorted_pairs = [np.asarray(arm).reshape(-1, 2)[order].ravel().tolist() for arm in (candidate, anchor)]
    mixed, grouped = (
        statistics.compare(PairedSamples(candidate, anchor)),
        statistics.compare(PairedSamples(*sorted_pairs)),
    )
    assert grouped.speedup == pytest.approx(mixed.speedup)
    assert grouped.high - grouped.low > 1.5 * (mixed.high - mixed.low)


@pytest.mark.parametrize("freedom", [3.0, 7.0, 14.5, 119.0])
@pytest.mark.parametrize("level", statistics.DECISIVE_LEVELS)
def test_student_quantile_against_scipy(freedom: float, level: float) -> None:
    p = 0.5 + level / 2
    assert statistics.student_quantile(p, freedom) == pytest.approx(stats.t.ppf(p, freedom), rel=0.02)


@pytest.mark.parametrize("p", [0.6, 0.75, 0.9, 0.975, 0.999])
def test_student_quantile_is_off_by_the_fifth_power_of_its_freedom(p: float) -> None:
    """Each term that is in it is right: what is left out shrinks 32 times where the freedom doubles."""
    once, twice = (statistics.student_quantile(p, freedom) - stats.t.ppf(p, freedom) for freedom in (20, 40))
    assert twice * 32 == pytest.approx(once, rel=0.05)


def test_each_look_doubles_the_blocks() -> None:
    assert all(2 * a <= b <= 2 * a + 1 for a, b in pairwise(statistics.LOOKS))
    assert statistics.LOOKS[-1] == 2 * statistics.LOOKS[-2]


@pytest.mark.parametrize(("planned", "as_for"), [(0, 1), (1, 1), (6, 6), (9, 6)])
def test_every_number_of_looks_has_a_decisive_level(planned: int, as_for: int) -> None:
    found, same = (statistics.timing(replace(samples(0.02), looks=looks)) for looks in (planned, as_for))
    assert (found.decisive_low, found.decisive_high) == (same.decisive_low, same.decisive_high)


@pytest.mark.parametrize("looks", [2, 3, 4, 5])
def test_decisive_levels_leave_five_percent_over_all_looks(looks: int) -> None:
    # A running sum of independent normal log-ratios, looked at after 12, 25, ... blocks.
    rng, at = np.random.default_rng(0), (0, *statistics.LOOKS[:looks])
    steps = np.stack([rng.normal(0.0, math.sqrt(b - a), 200_000) for a, b in pairwise(at)])
    z = np.abs(np.cumsum(steps, axis=0)) / np.sqrt(np.array(at[1:])[:, None])
    beyond = (z.max(axis=0) > stats.norm.ppf(0.5 + statistics.DECISIVE_LEVELS[looks - 1] / 2)).mean()
    assert beyond == pytest.approx(0.05, abs=0.002)


def test_a_sighting_before_five_looks_is_paid_for() -> None:
    rng, at = np.random.default_rng(0), (0, SIGHTING, *statistics.LOOKS)
    steps = np.stack([rng.normal(0.0, math.sqrt(b - a), 200_000) for a, b in pairwise(at)])
    z = np.abs(np.cumsum(steps, axis=0)) / np.sqrt(np.array(at[1:])[:, None])
    beyond = (z.max(axis=0) > stats.norm.ppf(0.5 + statistics.DECISIVE_LEVELS[5] / 2)).mean()
    assert beyond == pytest.approx(0.05, abs=0.002)


def test_more_planned_looks_widen_the_decisive_interval_most() -> None:
    one, five = statistics.timing(samples(0.0)), statistics.timing(replace(samples(0.0), looks=5))
    two = statistics.timing(replace(samples(0.0), looks=2))
    assert (two.low, two.high) == (five.low, five.high)
    assert (one.low, one.high) == (one.decisive_low, one.decisive_high)
    assert five.decisive_low is not None
    assert five.decisive_high is not None
    assert five.decisive_low < five.low < one.low < one.high < five.high < five.decisive_high
    assert math.log(five.high / five.low) == pytest.approx(math.log(one.high / one.low), rel=0.05)


@pytest.mark.parametrize(
    ("gap", "noise", "verdict"),
    [(0.05, 0.01, "faster"), (-0.05, 0.01, "slower"), (0.0, 0.005, "tie"), (0.01, 0.01, "inconclusive")],
)
def test_verdicts_by_time_alone(gap: float, noise: float, verdict: Verdict) -> None:
    timed = statistics.timing(samples(gap, 50, noise))
    assert timed.verdict == verdict
    assert statistics.overall([timed]) == verdict


def clocked(gap: float, candidate_hz: float, anchor_hz: float, noise: float = 0.002) -> Samples:
    one = samples(gap, 50, noise)
    return replace(one, candidate_hz=steady(one.candidate_s, candidate_hz), anchor_hz=steady(one.anchor_s, anchor_hz))


@pytest.mark.parametrize(
    ("gap", "candidate_hz", "verdict"),
    [
        (0.05, 1.90e9, "faster"),  # equal clocks: the cycles agree
        (0.05, 2.00e9, "ambiguous"),  # faster in time only because its clock was 5 % higher
        (0.05, 2.15e9, "ambiguous"),  # faster in time, slower in cycles
        (0.00, 2.00e9, "ambiguous"),  # equal in time, slower in cycles
        (-0.05, 1.90e9, "slower"),
        (0.03, 1.936e9, "faster"),  # cycles cannot tell: time stands
    ],
)
def test_a_verdict_must_hold_in_cycles(gap: float, candidate_hz: float, verdict: Verdict) -> None:
    one = clocked(gap, candidate_hz, 1.9e9)
    if candidate_hz == 1.936e9:
        rng = np.random.default_rng(3)
        one = replace(one, candidate_hz=tuple((candidate_hz * np.exp(rng.normal(0, 0.08, 100))).tolist()))
    timed = statistics.timing(one)
    assert timed.verdict == verdict
    assert statistics.overall([timed]) == verdict
    assert timed.cycles is not None
    assert timed.cycles.anchor_median_s == pytest.approx(1.9e9 * timed.anchor_median_s)
    if candidate_hz != 1.936e9:
        assert timed.cycles.candidate_median_s == pytest.approx(candidate_hz * timed.candidate_median_s)


def test_blocks_with_a_slow_clock_are_left_out_of_both_arms() -> None:
    one = clocked(0.03, 1.9e9, 1.9e9)
    candidate, hz = list(one.candidate_s), list(one.candidate_hz)
    for block in (3, 17):  # one sample of the candidate at 60 % of the clock
        candidate[2 * block] /= 0.6
        hz[2 * block] *= 0.6
    timed = statistics.timing(replace(one, candidate_s=tuple(candidate), candidate_hz=tuple(hz)))
    left = [i for i in range(50) if i not in (3, 17)]
    assert timed.log_ratios == pytest.approx([statistics.timing(one).log_ratios[i] for i in left])
    assert len(timed.candidate_s) == len(timed.candidate_hz) == 100
    assert timed.cycles is not None
    assert timed.verdict == "faster"


def test_a_clock_that_is_nowhere_typical_is_ambiguous() -> None:
    one = clocked(0.05, 1.9e9, 1.9e9)
    hz = tuple(f * (0.5 if i % 4 == 0 else 1.0) for i, f in enumerate(one.candidate_hz))
    other = tuple(f * (0.5 if i % 4 == 2 else 1.0) for i, f in enumerate(one.anchor_hz))
    timed = statistics.timing(replace(one, candidate_hz=hz, anchor_hz=other))
    assert len(timed.log_ratios) == 50
    assert timed.verdict == "ambiguous"


@pytest.mark.parametrize(("slow", "left", "verdict"), [(25, 25, "faster"), (26, 50, "ambiguous")])
def test_up_to_half_of_the_blocks_may_have_a_slow_clock(slow: int, left: int, verdict: Verdict) -> None:
    one = clocked(0.05, 1.9e9, 1.9e9)
    hz = tuple(f * (0.5 if i % 2 == 0 and i < 2 * slow else 1.0) for i, f in enumerate(one.candidate_hz))
    timed = statistics.timing(replace(one, candidate_hz=hz))
    assert (len(timed.log_ratios), timed.verdict) == (left, verdict)


@pytest.mark.parametrize(("known", "told"), [(3, False), (4, True)])
def test_cycles_need_four_blocks_with_a_clock(known: int, told: bool) -> None:
    one = clocked(0.05, 1.9e9, 1.9e9)
    hz = tuple(f if i < 2 * known else 0.0 for i, f in enumerate(one.candidate_hz))
    assert (statistics.timing(replace(one, candidate_hz=hz)).cycles is not None) == told


def test_failed_clock_readings_count_in_no_median_of_cycles() -> None:
    one = clocked(0.05, 1.9e9, 1.8e9, noise=0.05)
    candidate = tuple(hz * (i // 2 % 3 != 0) for i, hz in enumerate(one.candidate_hz))
    anchor = tuple(hz * (i // 2 % 3 != 1) for i, hz in enumerate(one.anchor_hz))
    cycles = statistics.timing(replace(one, candidate_hz=candidate, anchor_hz=anchor)).cycles
    assert cycles is not None
    seen = [[i for i in range(100) if i // 2 % 3 != lost] for lost in (0, 1)]
    assert cycles.candidate_median_s == pytest.approx(1.9e9 * np.median([one.candidate_s[i] for i in seen[0]]))
    assert cycles.anchor_median_s == pytest.approx(1.8e9 * np.median([one.anchor_s[i] for i in seen[1]]))
    assert cycles.candidate_s == cycles.anchor_s == ()


def test_cycles_compare_as_times_would_that_took_as_long() -> None:
    one, rng = samples(0.03), np.random.default_rng(4)
    hz = 1.9e9 * np.exp(rng.normal(0.0, 0.02, (2, 100)))
    cycles = statistics.timing(replace(one, candidate_hz=tuple(hz[0]), anchor_hz=tuple(hz[1]))).cycles
    counted = PairedSamples(np.asarray(one.candidate_s) * hz[0] / 1e9, np.asarray(one.anchor_s) * hz[1] / 1e9)
    wanted = statistics.compare(counted)
    assert cycles is not None
    assert (cycles.speedup, cycles.low, cycles.high) == pytest.approx((wanted.speedup, wanted.low, wanted.high))


def test_failed_clock_readings_are_no_slow_clocks() -> None:
    one = clocked(0.05, 1.9e9, 1.9e9)
    timed = statistics.timing(replace(one, candidate_hz=(0.0, *one.candidate_hz[1:])))
    assert len(timed.log_ratios) == 50
    assert timed.cycles is not None
    assert timed.verdict == "faster"
    assert statistics.timing(clocked(0.05, 0.0, 0.0)).cycles is None


def test_unequal_controls_cast_doubt() -> None:
    candidate, anchor = noisy(0.05, 25, 0.005, seed=1)
    one = replace(samples(0.05), control_candidate_s=candidate, control_anchor_s=anchor)
    timed = statistics.timing(one)
    assert timed.control == statistics.compare(PairedSamples(candidate, anchor))
    assert timed.verdict == "ambiguous"
    assert statistics.overall([timed]) == "ambiguous"
    # What is far beyond the difference between equal arms is no less true for it.
    for gap, verdict in ((0.5, "faster"), (0.1, "faster"), (-0.1, "slower"), (-0.05, "ambiguous"), (0.0, "ambiguous")):
        other = replace(samples(gap, noise=0.005), control_candidate_s=candidate, control_anchor_s=anchor)
        assert statistics.timing(other).verdict == verdict
    fair = noisy(0.0, 25, 0.005, seed=1)
    assert statistics.timing(replace(one, control_candidate_s=fair[0], control_anchor_s=fair[1])).verdict == "faster"


def test_other_pairs_are_compared_and_the_rest_passed_on() -> None:
    warm, launched = noisy(0.1, 12, 0.001, seed=1), noisy(-0.1, 12, 0.001, seed=2)
    one = replace(
        samples(0.0),
        mode="graph",
        warm_candidate_s=warm[0],
        warm_anchor_s=warm[1],
        launched_candidate_s=launched[0],
        launched_anchor_s=launched[1],
    )
    timed = statistics.timing(one)
    assert (timed.warm, timed.launched) == (
        statistics.compare(PairedSamples(*warm)),
        statistics.compare(PairedSamples(*launched)),
    )
    assert (timed.mode, timed.control, timed.cycles) == ("graph", None, None)


def test_geometric_mean_at_another_level() -> None:
    timings = [statistics.timing(samples(0.03, seed=k)) for k in range(2)]
    mean, low, high = statistics.geometric_mean(timings)
    surer, lower, higher = statistics.geometric_mean(timings, 0.999)
    assert surer == mean
    assert lower < low < high < higher


def test_geometric_mean_of_workloads() -> None:
    fast, same = (statistics.timing(samples(gap, 16, 1e-5)) for gap in (math.log(4), 0.0))
    assert statistics.geometric_mean([fast, same]) == pytest.approx((2.0, 2.0, 2.0), rel=1e-4)
    assert statistics.overall([fast, same]) == "faster"
    slow = statistics.timing(samples(-math.log(4), 16, 1e-5))
    assert statistics.overall([fast, slow]) == "tie"


def test_geometric_mean_of_equally_noisy_workloads_is_surer() -> None:
    timings = [statistics.timing(samples(0.1, 50, 0.01, seed)) for seed in range(4)]
    mean, low, high = statistics.geometric_mean(timings)
    assert mean == pytest.approx(math.exp(sum(math.log(t.speedup) for t in timings) / 4))
    assert math.log(high / low) == pytest.approx(math.log(timings[0].high / timings[0].low) / 2, rel=0.3)
    assert statistics.geometric_mean(timings[:1]) == pytest.approx(
        (timings[0].speedup, timings[0].low, timings[0].high)
    )


def test_two_equally_sure_workloads_have_twice_the_degrees_of_freedom() -> None:
    one = statistics.timing(samples(0.0, 4))
    _, low, high = statistics.geometric_mean([one, one])
    alone, both = (stats.t.ppf(0.975, freedom) for freedom in (3, 6))
    wanted = math.log(one.high / one.low) / math.sqrt(2) * both / alone
    assert math.log(high / low) == pytest.approx(wanted, rel=0.02)


def test_the_interval_of_the_mean_covers() -> None:
    covered = 0
    for trial in range(400):
        timings = [statistics.timing(samples(0.1 * k, 12, 0.01, seed=3 * trial + k)) for k in range(3)]
        _, low, high = statistics.geometric_mean(timings)
        covered += low <= math.exp(0.1) <= high
    assert 368 <= covered <= 392


def test_opposite_controls_cancel_in_the_mean() -> None:
    up, down = noisy(0.05, 25, 0.001, seed=1), noisy(-0.05, 25, 0.001, seed=1)
    timings = [
        statistics.timing(replace(samples(0.05), control_candidate_s=c, control_anchor_s=a)) for c, a in (up, down)
    ]
    assert [t.verdict for t in timings] == ["ambiguous"] * 2
    assert statistics.overall(timings) == "faster"


@pytest.mark.parametrize(
    ("gap", "blocks", "noise", "reason"),
    [
        (0.0, 12, 0.001, "precise"),
        (0.05, 12, 0.008, "settled"),
        (0.05, 12, 0.05, ""),
        (0.01, 25, 0.01, ""),
        (-1.0, 12, 0.05, "futile"),
        (-0.7, 12, 0.05, ""),
        (0.05, 3, 0.0001, ""),
        (0.05, 4, 0.0001, "precise"),
    ],
)
def test_reasons_to_stop(gap: float, blocks: int, noise: float, reason: str) -> None:
    assert statistics.settled(replace(samples(gap, blocks, noise), looks=5)) == reason


def test_what_the_spread_between_sessions_leaves_open_is_looked_at_again() -> None:
    arms = replace(samples(0.0, 25, 0.008), looks=5)
    assert statistics.settled(arms) == "settled"
    assert statistics.settled(replace(arms, session_sd=0.01)) == ""
    assert statistics.settled(replace(samples(0.0, 200, 0.003), looks=5, session_sd=0.01)) == "precise"


def test_late_looks_end_where_the_spread_between_sessions_outweighs_what_is_open() -> None:
    arms = replace(samples(0.0, 25, 0.02), looks=5)
    assert statistics.settled(replace(arms, session_sd=0.01)) == ""
    assert statistics.settled(replace(arms, session_sd=0.005), late=True) == ""
    assert statistics.settled(replace(arms, session_sd=0.01), late=True) == "precise"


def test_native_code_reports_what_most_sessions_leave_open_and_decides_by_rare_ones() -> None:
    arms = replace(samples(0.02, 200, 0.005), mode="native", looks=5)
    alone, sure = (statistics.timing(replace(arms, session_sd=sd)) for sd in (0.0, 0.02))
    assert (alone.verdict, sure.verdict) == ("faster", "inconclusive")
    error = statistics.pairs_of(arms).estimate().error
    wider = math.log(sure.high / sure.low) / math.log(alone.high / alone.low)
    assert wider == pytest.approx(math.hypot(error, 0.1 * 0.02) / error)
    assert sure.decisive_high is not None
    assert sure.decisive_high > sure.high * 1.03
    assert statistics.geometric_mean([sure]) == pytest.approx((sure.speedup, sure.low, sure.high))
    assert statistics.deciding_interval([sure])[:2] == pytest.approx((sure.decisive_low, sure.decisive_high))
    called = statistics.timing(replace(arms, mode="call", session_sd=0.02))
    assert math.log(called.high / called.low) > 0.08


def test_a_contradiction_between_time_and_cycles_is_looked_at_again() -> None:
    one = clocked(0.05, 2.0e9, 1.9e9, noise=0.008)
    arms = Samples("w", one.candidate_s[:24], one.anchor_s[:24], 0.0, looks=5)
    assert statistics.settled(arms) == "settled"
    clocks = one.candidate_hz[:24], one.anchor_hz[:24]
    assert statistics.settled(replace(arms, candidate_hz=clocks[0], anchor_hz=clocks[1])) == ""


def measured(draw: Callable[[int], tuple[np.ndarray, np.ndarray]]) -> statistics.WorkloadTiming:
    """Run the stopping rule over one session's samples."""
    candidate, anchor = (tuple(arm.tolist()) for arm in draw(statistics.LOOKS[-1]))
    so_far = (Samples("w", candidate[: 2 * n], anchor[: 2 * n], 0.0, looks=5) for n in statistics.LOOKS)
    return statistics.timing(next(s for s in so_far if statistics.settled(s) or len(s.anchor_s) == len(anchor)))


@pytest.mark.parametrize("gap", [0.0, -0.02])
def test_rates_under_the_full_stopping_rule(gap: float) -> None:
    rng = np.random.default_rng(11)

    def draw(blocks: int) -> tuple[np.ndarray, np.ndarray]:
        noise = rng.normal(0.0, 0.01, (2, 2 * blocks)) + np.log1p(
            0.5 * rng.random((2, 2 * blocks)) * (rng.random((2, 2 * blocks)) < 0.01)
        )
        return np.exp(noise[0] - gap), np.exp(noise[1])

    timings = [measured(draw) for _ in range(600)]
    covered = sum(t.low <= math.exp(gap) <= t.high for t in timings) / len(timings)
    # Three standard errors of 600 draws are 2.7 points.
    assert 0.92 <= covered <= 0.98
    wrong = {"faster", "slower"} if gap == 0.0 else {"faster", "tie"}
    assert sum(t.verdict in wrong for t in timings) <= 6


@pytest.mark.parametrize(("kept", "low", "high"), [(0.0, 0.9, 1.15), (0.5, 0.85, 1.1), (0.8, 0.7, 0.95)])
def test_the_error_counts_what_neighbouring_blocks_share(kept: float, low: float, high: float) -> None:
    """Blocks of which each keeps a part of the last one: the error claimed against the spread of the means."""
    rng = np.random.default_rng(7)
    claimed: list[float] = []
    means: list[float] = []
    for _ in range(300):
        blocks = [0.0]
        for fresh in rng.normal(0.0, 0.01, 199):
            blocks.append(kept * blocks[-1] + fresh)
        candidate = np.exp(-np.repeat(blocks, 2)) * 1e-4
        timed = statistics.timing(Samples("w", tuple(candidate.tolist()), (1e-4,) * 400, 0.0, looks=1))
        z = statistics.student_quantile(0.975, 200 - 2 * int(statistics.TRIMMED * 200) - 1)
        claimed.append((math.log(timed.high) - math.log(timed.low)) / (2 * z))
        means.append(math.log(timed.speedup))
    assert low < math.sqrt(float(np.mean(np.square(claimed)))) / float(np.std(means)) < high
