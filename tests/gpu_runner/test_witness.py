"""What speaks against the times of a candidate that was long in getting ready."""

from __future__ import annotations

from forewarp.gpu_runner.worker.witness import works_early

ANCHOR = [1e-4] * 40 + [1.5e-4] * 40


def test_a_candidate_that_is_ready_as_soon_as_the_anchor_is_believed() -> None:
    assert works_early([1.5e-4] * 40, ANCHOR) == ""
    assert works_early([2.4e-4] * 40, ANCHOR) == ""


def test_a_candidate_that_works_while_it_is_made_ready_is_not() -> None:
    assert "works before its calls" in works_early([9e-4] * 40, ANCHOR)


def test_nor_is_one_that_does_so_before_some_of_its_calls() -> None:
    assert "works before its calls" in works_early([9e-4] * 12 + [1e-4] * 28, ANCHOR)


def test_a_few_calls_that_the_machine_held_up_say_nothing() -> None:
    assert works_early([9e-4] * 8 + [1e-4] * 32, ANCHOR) == ""


def test_a_busy_machine_holds_up_both() -> None:
    assert works_early([5e-4] * 40, [value * 3 for value in ANCHOR]) == ""


def test_without_calls_there_is_nothing_to_say() -> None:
    assert works_early([], []) == ""
