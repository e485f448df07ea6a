"""Complaints about candidates that work before their calls."""

from __future__ import annotations

from forewarp.gpu_runner.worker.call_overhead import FETCHES, Copy, Readying, works_early


def readying(*parts: tuple[int, float, float], follows_other: bool = True) -> list[Readying]:
    """Return calls by their number, seconds and seconds of processors."""
    return [Readying(wall, processor, follows_other) for count, wall, processor in parts for _ in range(count)]


ANCHOR = readying((40, 1e-4, 0.8e-4), follows_other=False) + readying((40, 1.5e-4, 1.2e-4))


def test_a_candidate_that_is_ready_as_soon_as_the_anchor_is_believed() -> None:
    assert works_early(readying((40, 1.5e-4, 1.2e-4)), ANCHOR) == ""
    assert works_early(readying((40, 2.4e-4, 2.1e-4)), ANCHOR) == ""


def test_calls_behind_the_other_arms_are_compared_with_such_calls() -> None:
    """A cell that ran last finds its code in the caches."""
    anchor = readying((45, 1e-4, 0.9e-4), follows_other=False) + readying((13, 2.5e-4, 2.3e-4))
    candidate = readying((7, 1e-4, 0.9e-4), follows_other=False) + readying((13, 2.8e-4, 2.5e-4))
    assert works_early(candidate, anchor) == ""


def test_nor_may_it_be_late_where_it_follows_itself() -> None:
    candidate = readying((7, 9e-4, 8e-4), follows_other=False) + readying((13, 1.5e-4, 1.2e-4))
    assert "before 7 of 20" in works_early(candidate, ANCHOR)


def test_a_candidate_that_works_while_it_is_made_ready_is_not() -> None:
    assert "works before its calls" in works_early(readying((40, 9e-4, 8e-4)), ANCHOR)


def test_nor_is_one_that_does_so_before_some_of_its_calls() -> None:
    assert "works before its calls" in works_early(readying((12, 9e-4, 8e-4), (28, 1e-4, 1e-4)), ANCHOR)


def test_nor_is_one_whose_other_process_works_meanwhile() -> None:
    assert "works before its calls" in works_early(readying((40, 9e-4, 1e-4)), ANCHOR)


def test_nor_is_one_beside_processes_that_hold_up_the_anchor() -> None:
    held_up = readying((40, 1e-4, 0.8e-4), (40, 30e-4, 1.5e-4))
    assert "works before its calls" in works_early(readying((40, 9e-4, 8e-4)), held_up)


def test_nor_is_one_whose_anchor_was_slow_in_some_calls() -> None:
    disturbed = readying((60, 1e-4, 0.8e-4), (20, 9e-4, 9e-4))
    assert "works before its calls" in works_early(readying((40, 9e-4, 8e-4)), disturbed)


def test_nor_is_one_with_few_calls_of_which_some_are_late() -> None:
    anchor = readying((5, 1e-4, 0.8e-4), follows_other=False) + readying((10, 1.5e-4, 1.2e-4))
    assert "before 6 of 15" in works_early(readying((6, 9e-4, 8e-4), (9, 1.5e-4, 1.2e-4)), anchor)
    assert works_early(readying((4, 9e-4, 8e-4), (11, 1.5e-4, 1.2e-4)), anchor) == ""


def test_one_whose_anchor_was_as_often_late_is_believed() -> None:
    disturbed = readying((28, 1.5e-4, 1.2e-4), (12, 9e-4, 9e-4))
    assert works_early(readying((13, 1.5e-4, 1.2e-4), (7, 9e-4, 9e-4)), disturbed) == ""


def test_one_that_was_late_in_a_quarter_of_few_calls_is_believed() -> None:
    assert works_early(readying((9, 1.5e-4, 1.2e-4), (3, 9e-4, 9e-4)), ANCHOR[:50]) == ""


def test_one_that_was_held_up_in_half_of_its_calls_is_believed() -> None:
    assert works_early(readying((20, 1.5e-4, 1.2e-4), (20, 11e-4, 1.3e-4)), ANCHOR) == ""


def test_a_few_calls_that_the_machine_held_up_say_nothing() -> None:
    assert works_early(readying((8, 9e-4, 9e-4), (32, 1e-4, 1e-4)), ANCHOR) == ""


def test_a_busy_machine_holds_up_both() -> None:
    held_up = [r._replace(wall_s=3 * r.wall_s) for r in ANCHOR]
    assert works_early(readying((40, 5e-4, 2e-4)), held_up) == ""


def test_without_calls_there_is_nothing_to_say() -> None:
    assert works_early([], []) == ""


class TestCopying:
    def seen(self, *seconds: float) -> float:
        copy = Copy(1e-3)
        for each in seconds:
            copy.saw(each)
        return copy.seconds

    def test_takes_what_the_judge_takes_until_results_were_fetched(self) -> None:
        assert self.seen(2e-3, 2e-3) == 1e-3

    def test_takes_what_fetching_the_anchors_results_takes(self) -> None:
        assert self.seen(1.5e-3, 1.4e-3, 9e-3) == 1.5e-3

    def test_the_last_results_count(self) -> None:
        assert self.seen(*[1.2e-3] * FETCHES, *[1.6e-3] * FETCHES) == 1.6e-3

    def test_never_takes_much_longer_than_the_judges_nor_less(self) -> None:
        assert self.seen(*[50e-3] * 5) == 3e-3
        assert self.seen(*[0.0] * 5) == 1e-3
