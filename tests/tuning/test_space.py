"""Configurations beyond those that an author listed."""

from __future__ import annotations

from forewarp.tuning.space import MOST_PROPOSED, Configuration, proposals


def test_what_varies_goes_one_step_further_and_the_rest_stays() -> None:
    listed = [Configuration({"BLOCK": b, "GROUP": 8, "EVEN": True}, w, 3) for b, w in ((32, 4), (128, 8))]
    found = proposals(listed)
    assert {c.values["BLOCK"] for c in found} == {16, 32, 64, 128, 256}
    assert {c.warps for c in found} == {2, 4, 8, 16}
    assert {(c.values["GROUP"], c.values["EVEN"], c.stages) for c in found} == {(8, True, 3)}
    assert len(found) == 5 * 4 - 2
    assert not {c.label for c in found} & {c.label for c in listed}


def test_stages_go_by_one_and_what_is_no_power_of_two_keeps_its_values() -> None:
    listed = [Configuration({"SPLIT": n}, 4, s) for n, s in ((3, 1), (6, 3))]
    found = proposals(listed)
    assert {c.stages for c in found} == {1, 2, 3, 4}
    assert {c.values["SPLIT"] for c in found} == {3, 6}


def test_large_spaces_are_drawn_the_same_each_time() -> None:
    listed = [Configuration(dict.fromkeys("ABCDEF", v), w, s) for v, w, s in ((16, 2, 2), (256, 8, 5))]
    found = proposals(listed)
    assert len(found) == MOST_PROPOSED
    assert [c.label for c in found] == [c.label for c in proposals(listed)]


def test_configurations_with_different_keys_are_left_alone() -> None:
    assert not proposals([Configuration({"A": 16}), Configuration({"B": 32})])
