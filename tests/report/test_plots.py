"""Drawings in characters: the sizes asked for, the ends of the axes, and threads that draw at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from forewarp.report import plots
from forewarp.tools.calibration import ReliabilityPoint
from forewarp.tools.parts import Interval


def around(ratio: float) -> Interval:
    return Interval(ratio=ratio, low=ratio / 1.1, high=ratio * 1.1)


BEST = [None, around(0.9), around(0.9), around(1.6), around(2.4)]


@pytest.mark.parametrize(("width", "height"), [(40, 10), (140, 40)])
def test_a_drawing_has_the_size_asked_for(width: int, height: int) -> None:
    lines = plots.progress(BEST, width, height).splitlines()
    assert len(lines) in (height, height + 1)
    assert max(map(len, lines)) == width


def test_the_axis_names_what_was_measured() -> None:
    text = plots.progress(BEST, 60, 14)
    assert "1×" in text
    assert "2×" in text
    assert "3×" not in text


def test_less_than_two_measurements_are_no_curve() -> None:
    assert plots.progress([None, around(1.0)], 60, 14) == ""
    assert plots.against([(around(1.0), around(1.1))], 60, 14) == ""
    assert plots.reliability([], 60, 14) == ""


def test_a_point_of_a_reliability_diagram_stands_at_its_probabilities() -> None:
    point = ReliabilityPoint(count=9, forecast=0.02, observed=0.98, low=0.7, high=1.0)
    top = plots.reliability([point], 60, 20).splitlines()[:4]
    assert "●" in "".join(line[:12] for line in top)


def test_threads_that_draw_at_once_do_not_mix() -> None:
    drawings = [lambda n=n: plots.progress(BEST, 40 + n, 12) for n in range(16)]
    alone = [draw() for draw in drawings]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda draw: draw(), drawings)) == alone


def test_an_axis_is_labelled_to_both_ends() -> None:
    text = plots.progress([around(r) for r in (1.17, 1.17, 2.05)], 60, 24, each=[1.17, 0.53, 2.05])
    assert [line.split("┤")[0].strip() for line in text.splitlines() if "┤" in line] == [
        *("2×", "1.5×", "1.2×", "1×", "0.75×", "0.6×")
    ]
