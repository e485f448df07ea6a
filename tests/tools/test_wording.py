"""Numbers as people read them."""

from __future__ import annotations

import pytest

from forewarp.tools.parts import Interval
from forewarp.tools.wording import chance, clock, noise, slower, speedup, spread


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ((2.784, 2.771, 2.793), "2.78× [2.77, 2.79]"),
        ((0.0764, None, None), "0.0764×"),
        ((2.784, 2.771, None), "2.78×"),
        ((None, None, None), "–"),
        ((1234.5, 1000.2, 1512.9), "1,230× [1,000, 1,510]"),
    ],
)
def test_a_speedup_is_told_as_far_as_it_is_known(
    parts: tuple[float | None, float | None, float | None], text: str
) -> None:
    assert spread(*parts) == text


def test_an_interval_reads_the_same_whole_and_in_parts() -> None:
    assert speedup(Interval(ratio=1.5, low=1.25, high=1.75)) == spread(1.5, 1.25, 1.75)
    assert speedup(None) == spread(None, 1.0, 2.0)


def test_no_forecast_is_a_certainty() -> None:
    assert [chance(p) for p in (0.0, 0.004, 0.006, 0.5, 0.994, 0.998, 1.0)] == [
        *("< 1%", "< 1%", "1%", "50%", "99%", "> 99%", "> 99%")
    ]


def test_noise_is_no_power_of_ten() -> None:
    assert [noise(n) for n in (None, 0.0123, 4.56, 163.2, 25_000.0)] == [
        "",
        "±0.012 %",
        "±4.6 %",
        "±160 %",
        "±25,000 %",
    ]


def test_what_is_slower_by_more_than_all_of_it_is_no_power_of_ten() -> None:
    assert slower(Interval(ratio=0.65, low=0.21, high=2.0)) == "-35 % [-79, +100]"
    assert slower(Interval(ratio=1.0, low=0.9988, high=1.0312)) == "+0 % [-0.12, +3.1]"


def test_durations_are_short() -> None:
    assert [clock(s) for s in (0, 0.5, 9.9, 45, 90, 600, 7200)] == [
        *("0 s", "0.5 s", "9.9 s", "45 s", "90 s", "10.0 min", "2.0 h")
    ]
