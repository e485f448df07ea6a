"""Plots of a run for the terminal: best so far against measurements, and forecast against measurement."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from forewarp.report import plots
from forewarp.tools.run_report import best_so_far, usable

if TYPE_CHECKING:
    from forewarp.tools.run_report import CandidateLine

WIDTH, HEIGHT = 76, 14


def progress(candidates: Sequence[CandidateLine]) -> str:
    """Return the best speed-up after each measurement with its 95 % interval; "" with fewer than two measurements."""
    return plots.progress(best_so_far(candidates), width(WIDTH), HEIGHT)


def forecasts(candidates: Sequence[CandidateLine]) -> str:
    """Return measured against forecast speed-up, each with its interval; "" with fewer than two such candidates."""
    pairs = [(c.forecast.median, found) for c in candidates if c.forecast and (found := usable(c.measured))]
    return plots.against(pairs, width(WIDTH), HEIGHT)


def width(most: int) -> int:
    """Return how many columns a plot may take here."""
    return min(most, shutil.get_terminal_size((most, 24)).columns)
