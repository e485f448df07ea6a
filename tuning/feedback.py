"""Forecasts of a space corrected by what was measured in it.

How far forecasts are off is alike for configurations that are alike. A Gaussian process over it, with a level that the
whole space has in common, moves the forecasts of those that were not measured. `benchmarks/fit_configurations.py`
judges it on kernels that are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from forewarp.core.trees import Array
from forewarp.tuning.space import Configuration

LENGTH = 2.0
"""Distance over which errors of forecasts are alike: two doublings of one value, or two stages."""
SIZE, NOISE, LEVEL = 0.25, 0.15, 3.0
"""Octaves: how far forecasts of a space are off each other, what no distance explains, and how far all are off."""


def corrected(octaves: Array, configurations: Sequence[Configuration], measured: Mapping[int, float]) -> Array:
    """Return forecasts, moved by the measured times of some places; both are logarithms of seconds to base 2."""
    points, places = _points(configurations), list(measured)
    errors = np.array(list(measured.values())) - octaves[places]
    alike = _covariance(points, points[places])
    weights = np.linalg.solve(alike[places] + NOISE**2 * np.eye(len(places)), errors)
    return octaves + alike @ weights


def following(
    order: Sequence[int], octaves: Array, configurations: Sequence[Configuration], measured: Mapping[int, float]
) -> list[int]:
    """Return the places in `order` that were not measured, the fastest by corrected forecasts first."""
    moved = np.round(corrected(octaves, configurations, measured), 4) if measured else np.zeros(len(octaves))
    return sorted((i for i in order if i not in measured), key=lambda i: moved[i])


def with_compiled(octaves: Array, compiled: Mapping[int, float]) -> Array:
    """Return forecasts with those after compiling where there are some, the others moved by the median difference."""
    if not compiled:
        return octaves
    places, known = list(compiled), np.array(list(compiled.values()))
    moved = octaves + np.median(known - octaves[places])
    moved[places] = known
    return moved


def _covariance(a: Array, b: Array) -> Array:
    squares = ((a[:, None] - b[None]) ** 2).sum(axis=2)
    return LEVEL**2 + SIZE**2 * np.exp(-squares / (2 * LENGTH**2))


def _points(configurations: Sequence[Configuration]) -> Array:
    """Return coordinates: logarithms of whole numbers, stages as they are, places among the values of all else."""
    rows = [{**c.values, "num_warps": c.warps, "maxnreg": c.registers or 255} for c in configurations]
    columns = [_coordinates([row.get(name) for row in rows]) for name in dict.fromkeys(n for row in rows for n in row)]
    return np.column_stack([*columns, [float(c.stages) for c in configurations]])


def _coordinates(values: Sequence[Any]) -> Array:
    if all(type(v) is int and v > 0 for v in values):
        return np.log2(np.array(values, dtype=np.float64))
    known = sorted({repr(v) for v in values})
    return np.array([float(known.index(repr(v))) for v in values])
