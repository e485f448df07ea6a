"""Forecast of each configuration's time: physics first, then what trees learned of where it errs.

The trees were fitted to measured spaces by `benchmarks/fit_configurations.py`, which also judges them on kernels that
they have not seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from forewarp.core.trees import Array, Trees
from forewarp.core.values import Target
from forewarp.tuning import physics
from forewarp.tuning.physics import CompilerFacts, LaunchTotals, Times
from forewarp.tuning.space import Space

LEARNED = Path(__file__).with_name("learned.npz")
SETS = {False: "uncompiled", True: "compiled"}
"""Names of the trees, by whether the compiler's facts are known."""
WORST = 6.0
"""Octaves over the fastest, beyond which physics tells nothing apart."""
_ABSOLUTE = {
    *("programs", "warps", "stages", "barriers", "iterations", "dot_m", "dot_n", "dot_k"),
    *("staged_bytes", "held_bytes", "tile", "imbalance"),
}
"""Amounts of which the size itself counts, not only the size beside other configurations'."""


def forecast(space: Space, target: Target, facts: CompilerFacts | None = None) -> Times:
    """Forecast each configuration; raises `NotCounted` where the kernel's text cannot be followed."""
    counted = physics.amounts(space)
    return corrected(counted, physics.times(counted, target, facts), target, _learned()[SETS[facts is not None]])


def corrected(counted: LaunchTotals, times: Times, target: Target, trees: Trees) -> Times:
    """Return times with the octaves that the trees add to them; what does not fit stays last."""
    seconds = times.seconds * 2.0 ** trees.predict(columns(counted, times, target))
    return replace(times, seconds=np.where(times.fits, seconds, np.maximum(seconds, times.seconds)))


def columns(counted: LaunchTotals, times: Times, target: Target) -> Array:
    """Return what the trees see of each configuration, a row each.

    Rounded, so that the last bit of a logarithm, which differs from machine to machine, decides nothing.
    """
    seconds = np.where(times.fits, times.seconds, times.seconds / physics.REFUSED)
    each = counted.programs / float(target.processors or 1)
    found = [behind(times), np.log2(seconds * 1e6), *(np.minimum(p / seconds, 2.0) for p in times.parts.values())]
    for field in fields(counted):
        amount = np.log2(np.maximum(getattr(counted, field.name), 0.0) + 1.0)
        found += [amount] if field.name in _ABSOLUTE else []
        found.append(amount - np.median(amount))
    shared = np.where(np.isfinite(times.shared), times.shared, 1e6)
    found += [
        np.log2(each),
        np.ceil(each) / each,
        np.log2(counted.tile / (32 * counted.warps) + 1.0),
        *(times.registers, times.spills, np.log2(shared + 1.0)),
        *(times.blocks, times.blocks * counted.warps, times.waves, np.ceil(times.waves) / times.waves),
    ]
    return np.round(np.stack(np.broadcast_arrays(*found), axis=1).astype(np.float64), 3)


def behind(times: Times) -> Array:
    """Return the octaves by which physics sees each configuration behind the fastest, at most `WORST`."""
    octaves = np.log2(times.seconds)
    return np.minimum(octaves - octaves.min(), WORST)


def version() -> str:
    """Return the version of the fitted trees, which a locked choice names."""
    return str(_said()["version"])


@cache
def _stored() -> Mapping[str, Any]:
    with np.load(LEARNED) as file:
        return dict(file)


@cache
def _said() -> Mapping[str, Any]:
    return json.loads(_stored()["said"].tobytes())


@cache
def _learned() -> Mapping[str, Trees]:
    return {name: Trees.of_arrays(_stored(), name) for name in SETS.values()}
