from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from support.synthetic_executor import MisleadingForecaster, SyntheticExecutor, seed, task

from forewarp.archive.store import Archive
from forewarp.core import bins
from forewarp.core.budget import Budget
from forewarp.core.values import Decision, Forecast
from forewarp.search import policy
from forewarp.search.loop import Search
from forewarp.search.policy import Option, Situation
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.search.summary import exact_interval

SETTINGS = SearchSettings(measure_per_round=2, audit=0.0, audit_budget=100.0, explore=0)
MEASURED = [seed(), seed(UNROLL=16)]


def option(number: int, mean: float, sd: float = 0.3, p_valid: float = 0.9, *, fresh: bool = True) -> Option:
    apart = seed(seed().source.replace("go", f"go{number}"))
    return Option(number, apart, Forecast(bins.from_normal(mean, sd), p_valid, "f"), fresh)


def decide(options: list[Option], *, left: int | None = None, settings: SearchSettings = SETTINGS, rng: int = 0):
    return policy.decide(options, Situation(1.5, MEASURED, left), settings, random.Random(rng))


def measured(decisions: dict[int, Decision]) -> list[int]:
    chosen = [(d.numbers["order"], p) for p, d in decisions.items() if d.action == "measure"]
    return [p for _, p in sorted(chosen)]


def test_the_most_promising_are_measured_best_first() -> None:
    options = [option(1, 0.0), option(2, 1.5), option(3, 0.5), option(4, 2.5)]
    decisions = decide(options)
    assert measured(decisions) == [4, 2]
    assert set(decisions) == {1, 2, 3, 4}
    assert decisions[4].reason.startswith("promising")


def test_a_neighbour_of_a_pick_waits_for_the_next_round() -> None:
    near, far = seed(UNROLL=2), seed(TILE=512, UNROLL=2, WIDTH=1)
    forecasts = {1: (seed(), 2.0), 2: (near, 1.9), 3: (far, 1.2), 4: (seed(UNROLL=16), -2.0)}
    options = [Option(i, c, Forecast(bins.from_normal(m, 0.3), 0.9, "f"), True) for i, (c, m) in forecasts.items()]
    decisions = decide(options)
    assert measured(decisions) == [1, 3]
    assert decisions[1].numbers["room"] == decisions[3].numbers["room"] == 1.0


def test_a_likely_failure_is_worth_less() -> None:
    assert measured(decide([option(1, 2.0, p_valid=0.2), option(2, 1.5), option(3, 1.4)])) == [2, 3]


def test_an_unsure_forecast_goes_before_a_sure_one_without_promise() -> None:
    sure, unsure = option(1, -3.0, 0.05), option(2, -3.0, 1.0)
    decisions = decide([sure, unsure], settings=replace(SETTINGS, measure_per_round=1))
    assert decisions[2].numbers["unsure"] > decisions[1].numbers["unsure"]
    assert decisions[2].score > decisions[1].score


def test_the_numbers_explain_the_score() -> None:
    for decision in decide([option(1, 0.5), option(2, 1.0), option(3, 0.0)]).values():
        n = decision.numbers
        assert decision.score == pytest.approx(n["p_valid"] * n["gain"])
        assert n["incumbent"] == 1.5
    own = replace(option(1, 0.5), forecast=Forecast(bins.from_normal(0.5, 1.0), 0.9, "f", mean_log2=0.5, sd_log2=0.25))
    assert decide([own])[1].numbers["unsure"] == 0.25


def test_the_gain_is_the_expected_improvement_over_the_incumbent() -> None:
    forecast = Forecast((0, 0, 0, 0, 0, 0.5, 0.5, 0), 1.0, "f")
    decisions = policy.decide(
        [Option(1, seed(), forecast, True)], Situation(2.0, MEASURED, None), SETTINGS, random.Random(0)
    )
    # Half of the mass lies evenly between one and two octaves, the incumbent at one.
    assert decisions[1].numbers["gain"] == pytest.approx(0.25)


def test_one_source_without_tunables_is_no_distance_apart() -> None:
    bare = replace(seed(), tunables={})
    assert policy._distance(bare, bare, {}) == 0.0


@pytest.mark.parametrize("known", [{"mean_log2": 1.0}, {"sd_log2": 0.1}, {}])
def test_without_both_moments_the_bins_tell_the_gain(known: dict[str, float]) -> None:
    forecast = Forecast((0, 0, 0, 0, 0, 0.5, 0.5, 0), 1.0, "f")
    assert policy.improvement(replace(forecast, **known), 1.0) == policy.improvement(forecast, 1.0)
    sure = policy.improvement(replace(forecast, mean_log2=1.0, sd_log2=0.1), 1.0)
    assert sure == pytest.approx(1.0, abs=0.01)


def test_spread_of_a_single_bin_is_that_of_an_even_distribution() -> None:
    assert bins.spread_log2((0, 0, 0, 0, 0, 0, 1, 0)) == pytest.approx(1 / 12**0.5)


def test_what_promises_too_little_is_not_worth_a_measurement() -> None:
    hopeless, hopeful = option(1, -4.0, 0.05), option(2, 1.5)
    decisions = decide([hopeless, hopeful])
    assert measured(decisions) == [2]
    assert decisions[1].reason == "it promises too little"
    assert measured(decide([hopeless])) == []
    assert measured(decide([hopeless], settings=replace(SETTINGS, min_improvement=0.0))) == [1]
    # The first few are measured all the same: they show whether the forecaster is right.
    assert measured(decide([hopeless], settings=replace(SETTINGS, explore=5))) == [1]
    # A discard like any other, so that it may be audited.
    both = decide([hopeless, hopeful], settings=replace(SETTINGS, audit=1.0))
    assert policy.is_audit(both[1])


def test_what_costs_more_must_promise_more() -> None:
    dear, cheap = replace(option(1, 1.5), price=3.0), option(2, 1.4)
    decisions = decide([dear, cheap], settings=replace(SETTINGS, measure_per_round=1))
    assert measured(decisions) == [2]
    n = decisions[1].numbers
    assert decisions[1].score == pytest.approx(n["p_valid"] * n["gain"] / 3.0)
    # A candidate that is too dear for what it promises is not measured at all.
    assert measured(decide([replace(option(1, 1.5), price=1000.0)])) == []


def test_after_an_alarm_everything_is_measured_in_full_what_is_new_first() -> None:
    options = [option(1, -3.0), option(2, 2.0, fresh=False), option(3, 1.0), option(4, -1.0)]
    situation = Situation(1.5, MEASURED, None, fallback=8)
    decisions = policy.decide(options, situation, SETTINGS, random.Random(0))
    assert measured(decisions) == [1, 3, 4, 2]
    assert all(d.reason.startswith("drift") and d.numbers["drift"] == 1.0 for d in decisions.values())
    assert not any(policy.may_stop_early(d) for d in decisions.values())
    assert not any(policy.is_audit(d) or policy.is_discard(d) for d in decisions.values())
    short = policy.decide(options, replace(situation, left=2), SETTINGS, random.Random(0))
    assert measured(short) == [1, 3]
    assert measured(policy.decide(options, replace(situation, fallback=1), SETTINGS, random.Random(0))) == [1]


def test_who_may_be_stopped_early() -> None:
    picked = decide([option(1, 2.0), option(2, 1.9), option(3, 0.0)], settings=replace(SETTINGS, audit=1.0))
    assert all(policy.may_stop_early(d) for d in picked.values())
    explored = decide([option(1, 2.0, 1.4)], settings=replace(SETTINGS, explore=5))
    assert not policy.may_stop_early(explored[1])
    everything = decide([replace(option(1, 0.0), forecast=None)])
    assert policy.may_stop_early(everything[1])


def test_no_more_than_the_budget_allows() -> None:
    options = [option(i, i / 5) for i in range(8)]
    all_audited = replace(SETTINGS, audit=1.0)
    assert len(measured(decide(options, left=1, settings=all_audited))) == 1
    assert len(measured(decide(options, left=4, settings=all_audited))) == 4
    assert measured(decide(options, left=0, settings=all_audited)) == []
    assert measured(decide([replace(o, forecast=None) for o in options], left=3)) == [0, 1, 2]


def test_audits_are_drawn_from_fresh_discards_at_the_given_rate() -> None:
    settings = replace(SETTINGS, audit=0.1)
    audits = total = 0
    for number in range(100):
        decisions = decide([option(i, 0.1 * i, fresh=i % 2 == 0) for i in range(20)], settings=settings, rng=number)
        flagged = [p for p, d in decisions.items() if policy.is_audit(d)]
        assert all(p % 2 == 0 and p < 18 for p in flagged)
        assert all(decisions[p].action == "measure" and policy.is_discard(decisions[p]) for p in flagged)
        audits += len(flagged)
        total += sum(policy.is_discard(d) for d in decisions.values())
    assert total == 100 * 9
    assert 0.07 < audits / total < 0.13


def test_first_come_candidates_far_apart() -> None:
    kernels = [seed(), seed(UNROLL=2), seed(TILE=512, UNROLL=4, WIDTH=1), seed(WIDTH=2)]
    options = [Option(i, k, Forecast(bins.from_normal(0, 1), 1.0, "f"), True) for i, k in enumerate(kernels)]
    settings = replace(SETTINGS, explore=2, audit=1.0)
    decisions = policy.decide(options, Situation(None, [], None), settings, random.Random(0))
    assert measured(decisions) == [0, 2]
    assert not any(policy.is_audit(d) or policy.is_discard(d) for d in decisions.values())
    another = Option(9, seed(seed().source.replace("go", "run")), options[0].forecast, True)
    decisions = policy.decide([*options, another], Situation(None, kernels[:1], None), settings, random.Random(0))
    assert measured(decisions) == [9]


def test_audits_bound_the_false_discards(tmp_path: Path) -> None:
    settings = SearchSettings(budget=Budget(measurements=25), audit=0.3, audit_budget=100.0, seed=1)
    with Archive(tmp_path / "a.db") as archive:
        search = Search.start(
            archive, task(), SyntheticExecutor(), TunablesProposer(), MisleadingForecaster(), settings
        )
        summary = search.run()
        audits = {d.proposal: d.decision for d in archive.decisions(search.run_id) if policy.is_audit(d.decision)}
        audited = sum(
            policy.is_audit(r.decision) for r in archive.candidates(search.run_id) if r.measurement and r.decision
        )
        speedups = {r.proposal: r.measurement.speedup for r in archive.candidates(search.run_id) if r.measurement}
    bound = summary.false_discards
    assert bound is not None
    assert bound.audited == audited == len(audits) > 3
    assert bound.false == sum((speedups[p] or 0) > d.numbers["incumbent"] for p, d in audits.items()) > 0
    assert bound.share == bound.false / bound.audited
    assert 0 < bound.low < bound.share < bound.high < 1
    assert bound.discarded >= bound.audited


@pytest.mark.parametrize(
    ("hits", "count", "low", "high"), [(0, 20, 0.0, 0.1684), (1, 20, 0.0013, 0.2487), (10, 10, 0.6915, 1.0)]
)
def test_the_exact_interval_against_the_tables(hits: int, count: int, low: float, high: float) -> None:
    assert exact_interval(hits, count) == pytest.approx((low, high), abs=1e-4)


def test_doubt_that_all_candidates_share_does_not_keep_them_from_being_told_apart() -> None:
    def wide(shared: float) -> list[Option]:
        return [
            replace(o, forecast=replace(o.forecast, mean_log2=1.0, sd_log2=1.2, shared_sd_log2=shared))
            for o in (option(1, 1.0), option(2, 1.5))
            if o.forecast is not None
        ]

    settings = replace(SETTINGS, explore=9, measure_per_round=1)
    # √(1.2² − 0.7²) = 0.97 is above `CLUELESS` = 0.9; √(1.2² − 0.8²) = 0.894 is below it.
    (alone,) = [d for d in decide(wide(0.7), settings=settings).values() if d.action == "measure"]
    (known,) = [d for d in decide(wide(0.8), settings=settings).values() if d.action == "measure"]
    assert alone.numbers["explore"] == 1.0
    assert "explore" not in known.numbers
    # No forecaster should say so, but more than the whole doubt is no reason to fail.
    assert len(decide(wide(1.3), settings=settings)) == 2
    assert policy.CLUELESS == 0.9


def test_exploring_goes_far_in_octaves_and_stops_at_its_number() -> None:
    # From 64, 512 is three doublings away, 16 two: distances are in octaves, of the whole range that is there.
    kernels = [seed(TILE=16), seed(TILE=512)]
    options = [Option(i, k, Forecast(bins.from_normal(0, 1.5), 1.0, "f"), True) for i, k in enumerate(kernels)]
    settings = replace(SETTINGS, explore=2, measure_per_round=2)
    decisions = policy.decide(options, Situation(None, [seed(TILE=64)], None), settings, random.Random(0))
    assert measured(decisions) == [1]
    span = math.log2(513) - math.log2(17)
    assert decisions[1].numbers["distance"] == pytest.approx((math.log2(513) - math.log2(65)) / span / 4)
    assert decisions[0].numbers["known"] == decisions[0].numbers["discard"] == 0.0


@pytest.mark.parametrize(("explore", "explores"), [(3, True), (2, False), (1, False)])
def test_exploring_ends_when_as_many_are_measured_as_are_to_be_explored(explore: int, explores: bool) -> None:
    vague = [option(number, 1.0, 1.5) for number in (1, 2)]
    decisions = decide(vague, settings=replace(SETTINGS, explore=explore, measure_per_round=2))
    assert [bool(d.numbers.get("explore")) for d in decisions.values()].count(True) == explores
    # From then on what promises too little is not measured either.
    hopeless = decide([option(1, -4.0, 0.05)], settings=replace(SETTINGS, explore=explore))
    assert bool(measured(hopeless)) == explores


def test_the_first_round_measures_its_gain_from_the_reference_and_says_that_nothing_is_measured() -> None:
    vague = [option(number, 1.0, 1.5) for number in (1, 2)]
    settings = replace(SETTINGS, explore=5)
    first = policy.decide(vague, Situation(None, [], None), settings, random.Random(0))
    assert [d.numbers["incumbent"] for d in first.values()] == [1.0, 1.0]
    assert sorted(d.reason for d in first.values()) == [
        "explore: far from what was measured",
        "explore: nothing was measured yet",
    ]
    later = policy.decide(vague, Situation(None, MEASURED, None), settings, random.Random(0))
    assert {d.reason for d in later.values()} == {"explore: far from what was measured"}


def test_exploring_leaves_known_what_was_decided_on_before() -> None:
    options = [option(number, 1.0, 1.5, fresh=number != 3) for number in range(5)]
    decisions = decide(options, settings=replace(SETTINGS, explore=4))
    assert [policy.is_known(decisions[p]) for p in (2, 3, 4)] == [False, True, False]


def test_exploring_begins_with_the_most_promising_of_equally_distant_programs() -> None:
    kernels = [replace(seed(), source=f"// program {n}\n{seed().source}") for n in range(3)]
    means = [0.0, 1.0, 0.5]
    options = [
        Option(i, k, Forecast(bins.from_normal(m, 1.5), 1.0, "f"), True)
        for i, (k, m) in enumerate(zip(kernels, means, strict=True))
    ]
    settings = replace(SETTINGS, explore=2, measure_per_round=2)
    assert measured(policy.decide(options, Situation(None, [], None), settings, random.Random(0))) == [1, 2]


def test_exploring_tries_another_program_as_it_was_written_first() -> None:
    other = f"// another program\n{seed().source}"
    kernels = [seed(TILE=512), replace(seed(TILE=512), source=other), replace(seed(), source=other)]
    options = [
        Option(i, k, Forecast(bins.from_normal(m, 1.5), 1.0, "f"), True, as_written=i == 2)
        for i, (k, m) in enumerate(zip(kernels, (2.0, 1.0, 0.0), strict=True))
    ]
    settings = replace(SETTINGS, explore=4, measure_per_round=1)
    assert measured(policy.decide(options, Situation(1.0, [seed()], None), settings, random.Random(0))) == [2]


def test_an_audit_and_a_skip_are_known_from_then_on() -> None:
    decisions = decide([option(1, 2.0), option(2, 1.9), option(3, 0.0)], settings=replace(SETTINGS, audit=1.0))
    assert policy.is_audit(decisions[3])
    assert [decisions[3].numbers[flag] for flag in ("discard", "audit", "known")] == [1.0, 1.0, 1.0]
    assert [decisions[1].numbers.get(flag, 0.0) for flag in ("discard", "audit", "known")] == [0.0, 0.0, 1.0]
    assert all(policy.is_known(d) for d in decisions.values())
    assert all(policy.is_known(d) for d in decide([option(1, 2.0), option(2, 0.0)]).values())
    assert not policy.is_known(None)


@pytest.mark.parametrize("explore", [0, 9])
def test_of_equals_the_first_proposed_is_measured(explore: int) -> None:
    same = replace(option(1, 1.5, 1.5), proposal=7), replace(option(1, 1.5, 1.5), proposal=4)
    settings = replace(SETTINGS, measure_per_round=1, explore=explore)
    assert measured(decide(list(same), settings=settings)) == [4]


def test_how_close_a_neighbour_is_lowers_its_score_in_proportion() -> None:
    forecast = Forecast(bins.from_normal(1.5, 0.3), 0.9, "f")
    kernels = [seed(), seed(UNROLL=2), seed(UNROLL=16, TILE=512, WIDTH=8)]
    decisions = decide(
        [Option(i, k, forecast, True) for i, k in enumerate(kernels)], settings=replace(SETTINGS, measure_per_round=3)
    )
    step = (math.log2(3) - 1) / (math.log2(17) - 1) / 4
    assert measured(decisions) == [0, 2, 1]
    assert decisions[1].numbers["room"] == pytest.approx(step / policy.ROOM)
    assert policy.ROOM == 0.15


def test_a_neighbour_of_great_promise_goes_before_one_far_away() -> None:
    kernels = {
        1: (seed(), 3.0, 1.0),
        2: (seed(UNROLL=2), 1.4, 0.85),
        3: (seed(UNROLL=16, TILE=512, WIDTH=8), 0.78, 1.0),
    }
    options = [Option(i, c, Forecast(bins.from_normal(m, 0.1), p, "f"), True) for i, (c, m, p) in kernels.items()]
    decisions = decide(options, settings=replace(SETTINGS, measure_per_round=3))
    score, room = ({p: d.numbers[name] for p, d in decisions.items()} for name in ("score", "room"))
    assert room[2] < 1.0 == room[3]
    # Of its promise so much counts as there is room, whatever both add up to.
    assert score[2] * room[2] > score[3]
    assert score[2] + room[2] < score[3] + room[3]
    assert measured(decisions) == [1, 2, 3]


def test_why_a_candidate_is_skipped() -> None:
    decisions = decide([option(1, 2.5), option(2, 2.0), option(3, 1.5), option(4, -4.0, 0.05)])
    assert [decisions[p].reason for p in (3, 4)] == ["others promise more", "it promises too little"]


def test_a_single_discard_is_audited_for_two_picks() -> None:
    settings = replace(SETTINGS, audit=1.0, audit_budget=0.5)
    options = [option(1, 2.5), option(2, 2.0), option(3, 1.5)]
    assert all(policy.is_audit(decide(options, settings=settings, rng=number)[3]) for number in range(20))


def test_audits_cost_a_share_of_the_picks_on_average() -> None:
    settings = replace(SETTINGS, audit=1.0, audit_budget=0.5)
    options = [option(i, 0.1 * i) for i in range(22)]
    rounds = [decide(options, settings=settings, rng=number) for number in range(300)]
    audits = sum(policy.is_audit(d) for decisions in rounds for d in decisions.values())
    # Two picks a round pay for one audit.
    assert 0.8 < audits / 300 < 1.2


def test_another_source_is_farther_than_any_choice_of_tunables() -> None:
    opposite, other = seed(TILE=512, UNROLL=16, WIDTH=8, UNUSED=1), seed(seed().source.replace("go", "run"))
    near = seed(TILE=16, UNROLL=1, WIDTH=1, UNUSED=0)
    options = [
        Option(i, k, Forecast(bins.from_normal(0, 1.5), 1.0, "f"), True) for i, k in enumerate((opposite, other))
    ]
    settings = replace(SETTINGS, explore=2, measure_per_round=1)
    decisions = policy.decide(options, Situation(None, [near], None), settings, random.Random(0))
    assert measured(decisions) == [1]
    assert decisions[1].numbers["distance"] == 2.0


def test_what_is_measured_without_a_forecast_has_no_score() -> None:
    assert {d.score for d in decide([replace(option(i, 1.0), forecast=None) for i in range(3)]).values()} == {0.0}
