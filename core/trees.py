"""Regression trees as plain arrays: a model's answer is the same everywhere, and no library is needed for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MISSING = -1e6
"""Stand-in for a number that is not known: below all known ones, so that a tree can split it off."""

_FIELDS = ("feature", "threshold", "left", "right", "value", "root")


@dataclass(frozen=True, slots=True)
class Trees:
    """Nodes of all trees in one table: a row goes left if its feature is at most the threshold.

    A leaf is its own child; `root` holds each tree's first node. An answer is the sum of a row's leaves times `scale`.
    """

    feature: NDArray[np.int16]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    value: NDArray[np.float32]
    root: NDArray[np.int32]
    scale: float = 1.0

    def predict(self, rows: Array) -> Array:
        """Return one number a row of features; NaN is an unknown feature."""
        filled = np.where(np.isfinite(rows), rows, MISSING)
        place = np.broadcast_to(self.root, (len(filled), len(self.root))).copy()
        index = np.arange(len(filled))[:, None]
        while True:
            goes_left = filled[index, self.feature[place]] <= self.threshold[place]
            after = np.where(goes_left, self.left[place], self.right[place])
            if np.array_equal(after, place):
                return self.value[place].sum(axis=1, dtype=np.float64) * self.scale
            place = after

    def arrays(self, prefix: str) -> dict[str, Any]:
        """Return the arrays of a model's file, under names that begin with `prefix`."""
        return {f"{prefix}.{name}": getattr(self, name) for name in _FIELDS} | {f"{prefix}.scale": np.array(self.scale)}

    @staticmethod
    def of_arrays(stored: Mapping[str, Any], prefix: str) -> Trees:
        return Trees(*(stored[f"{prefix}.{name}"] for name in _FIELDS), scale=float(stored[f"{prefix}.scale"]))
