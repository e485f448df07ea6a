from __future__ import annotations

import math

import pytest

from forewarp.tools.parts import Interval
from forewarp.tools.suite_results import SuiteRow, best_of, over, speedup_of, summarise, view
from forewarp.tools.suite_tables import said_of


def interval(ratio: float, factor: float = 1.1) -> Interval:
    return Interval(ratio=ratio, low=ratio / factor, high=ratio * factor)


def row(problem: str, ratio: float | None = None, *, trusted: bool = True, compiled: float | None = None) -> SuiteRow:
    if ratio is None:
        return SuiteRow(problem=problem, kernel="k", status="incorrect")
    return SuiteRow(
        problem=problem,
        kernel="k",
        status="ok",
        verdict="faster",
        correct=True,
        trusted=trusted,
        eager=interval(ratio),
        compile=None if compiled is None else interval(compiled),
    )


def test_fast_p_is_a_share_of_all_problems_by_the_estimate_and_by_the_lower_end() -> None:
    rows = [row("a", 2.1), row("b", 1.55), row("c", 1.05), row("d", 0.5), row("e"), row("f", 3.0, trusted=False)]
    rows += [SuiteRow(problem="g", kernel="", status="no_kernel"), row("h")]
    found = view([[r] for r in rows], ["eager"])
    (score,) = found.scores
    assert found.correct == 5 / 8
    assert [(s.point, s.certain) for s in score.fast().values()] == [(3 / 8, 2 / 8), (2 / 8, 1 / 8), (1 / 8, 0)]
    # An untrusted time is no time.
    assert score.timed == 4
    assert score.geomean == pytest.approx((2.1 * 1.55 * 1.05 * 0.5) ** 0.25)


def test_exactly_p_times_as_fast_is_not_more() -> None:
    (score,) = view([[row("a", 1.0)], [row("b", 2.0)]], ["eager"]).scores
    assert [s.point for s in score.fast().values()] == [1 / 2, 1 / 2, 0]


def test_several_samples_count_as_the_best_or_as_one_drawn_at_random() -> None:
    groups = [[row("a", 3.0), row("a"), row("a", 0.5), row("a", 9.0, trusted=False)], [row("b")]]
    assert best_of(groups[0]).eager == interval(3.0)
    best = view([[best_of(g)] for g in groups], ["eager"])
    drawn = view(groups, ["eager"])
    assert (best.correct, drawn.correct) == (1 / 2, (3 / 4) / 2)
    assert (best.scores[0].fast_2.point, drawn.scores[0].fast_2.point) == (1 / 2, (1 / 4) / 2)


def test_without_a_trusted_one_the_best_is_a_correct_one() -> None:
    wrong, doubtful = row("a"), row("a", 9.0, trusted=False)
    assert best_of([wrong, doubtful]) is doubtful
    assert best_of([wrong]) is wrong


def test_each_baseline_has_its_own_score() -> None:
    rows = [row("a", 4.0, compiled=1.2), row("b", 4.0)]
    eager, compiled = view([[r] for r in rows], ["eager", "compile"]).scores
    assert (eager.fast_1.point, eager.timed) == (1.0, 2)
    assert (compiled.fast_1.point, compiled.fast_2.point, compiled.timed) == (0.5, 0.0, 1)
    assert speedup_of(row("a", 4.0, trusted=False, compiled=1.2), "compile") is None


def test_the_ratio_of_two_speed_ups_has_both_errors() -> None:
    found = over(interval(3.0, 1.1), interval(1.5, 1.1))
    assert found.ratio == pytest.approx(2.0)
    half = math.sqrt(2) * math.log(1.1)
    assert math.log(found.high / found.ratio) == pytest.approx(half)
    assert math.log(found.ratio / found.low) == pytest.approx(half)
    # What is known exactly adds nothing; lopsided intervals stay so, and turn over with the division.
    exact = Interval(ratio=1.0, low=1.0, high=1.0)
    same = over(interval(3.0), exact)
    assert (same.low, same.high) == (pytest.approx(3.0 / 1.1), pytest.approx(3.0 * 1.1))
    turned = over(exact, Interval(ratio=1.0, low=0.5, high=1.1))
    assert (turned.low, turned.high) == (pytest.approx(1 / 1.1), pytest.approx(2.0))


def test_the_summary_says_what_could_not_be_run_and_what_is_left() -> None:
    groups = [[row("a", 3.0)], [SuiteRow(problem="b", kernel="k", status="problem_failed")]]
    said = summarise(groups, view(groups, ["eager"]), left=2)
    assert "1 of 2 problems have a correct kernel" in said
    assert "fast_1 0.50, fast_1.5 0.50, fast_2 0.50" in said
    assert "The references of 1 cannot be run here" in said
    assert "2 measurements are left" in said
    assert "left" not in summarise(groups, view(groups, ["eager"]), left=0)


def test_no_problem_has_no_scores() -> None:
    (score,) = view([], ["eager"]).scores
    assert (score.fast_1.point, score.geomean) == (0.0, None)


def test_a_time_that_is_not_trusted_is_called_so() -> None:
    groups = [[row("a", 3.0, trusted=False)], [row("b", 2.0)], [row("c")]]
    assert said_of(groups[0][0]) == "faster, untrusted"
    assert said_of(groups[1][0]) == "faster"
    summary = summarise(groups, view(groups, ["eager"]), left=0)
    assert "No time for 1 of them is to be trusted, which counts as not fast" in summary
