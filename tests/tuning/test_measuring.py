"""Which configurations are sampled on."""

from forewarp.tuning.measuring import Timing, not_behind


def timing(place: int, *samples: float) -> Timing:
    return Timing(place, [s * 1e-6 for s in samples])


def test_one_disturbed_sample_leaves_no_configuration_behind() -> None:
    best, disturbed, slow = timing(0, 100, 102), timing(1, 98, 800), timing(2, 230, 240)
    assert not_behind([best, disturbed, slow]) == [best, disturbed]


def test_the_best_is_judged_by_its_median() -> None:
    lucky, other = timing(0, 10, 100, 100), timing(1, 130, 130, 130)
    assert not_behind([lucky, other]) == [lucky, other]


def test_none_is_left_behind_where_there_is_none() -> None:
    assert not_behind([]) == []
