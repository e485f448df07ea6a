"""Prior of the learned forecaster before the first trial: trees over `vector`, fitted to a pool of measured kernels.

`benchmarks/train_learned.py` makes the file beside this module. It holds plain arrays, so that the answer is the same
everywhere, and a JSON text with the version of the vector, the hash and the date of the data, and the figures that the
fit reached on families of operations that it had not seen.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarp.core.errors import UsageError
from forewarp.core.protocols import Subject
from forewarp.core.trees import Trees
from forewarp.core.values import Target
from forewarp.inspection.features.vector import VECTOR_VERSION, vector

Array = NDArray[np.float64]

SHIPPED = Path(__file__).with_name("learned.npz")
FORMAT = 1
NEEDED = ("floor_s", "registers", "instructions", "threads", "blocks")
"""Facts that a candidate must have to be of the kind that the trees were fitted to."""

_TIMES = ("absolute", "deviation", "rank")
PARTS = (*_TIMES, "spreads", "validity")
_SPREADS = (0.4, 2.5)


@dataclass(frozen=True, slots=True)
class Variances:
    """Variances of log2 S before any trial, in octaves²: of a task's level, of a program's own, and of its tunables."""

    level: float
    program: float
    choice: float


BROAD = Variances(1.0, 0.5, 0.75)
"""Spread of a forecaster that knows nothing but the run's own trials: 1.5 octaves about "no change"."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Variances of what the trees leave unexplained on unseen families, in octaves², with Student-t tails.

    `level` is that of a task's mean, `blind` where the anchor's time is not known; `program` and `choice` those within.
    """

    level: float
    blind: float
    program: float
    choice: float
    freedom: float


@dataclass(frozen=True, slots=True)
class ExpectedTime:
    """Expectation for each subject: log2 of time over the floor, its spread in units of the usual, P(valid)."""

    time: Array
    spread: Array
    valid: Array


@dataclass(frozen=True, slots=True)
class Model:
    """A fitted prior: log2 of the time over the floor is `bias` plus the weighted `times`, trees over `columns`.

    `anchor` is the mean log2 of the anchor's time over the floor. `info` holds where all this comes from.
    """

    columns: tuple[str, ...]
    times: tuple[Trees, ...]
    weights: tuple[float, ...]
    bias: float
    anchor: float
    spreads: Trees
    validity: Trees
    logistic: tuple[float, float]
    spread: Spread
    info: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def expect(self, target: Target, subjects: Sequence[Subject]) -> ExpectedTime:
        return self.expect_rows(table(self.columns, target, subjects))

    def expect_rows(self, rows: Array) -> ExpectedTime:
        time = self.bias + sum(
            (w * t.predict(rows) for w, t in zip(self.weights, self.times, strict=True)), np.zeros(len(rows))
        )
        slope, shift = self.logistic
        valid = 1.0 / (1.0 + np.exp(-(slope * self.validity.predict(rows) + shift)))
        return ExpectedTime(time, np.clip(np.exp(self.spreads.predict(rows)), *_SPREADS), valid)


def covered(target: Target, subject: Subject) -> bool:
    """Return whether the trees cover a subject: a GPU's kernel that was compiled and inspected."""
    return target.kind == "cuda" and all(subject.build.evidence.facts.get(n, 0.0) > 0 for n in NEEDED)


def table(columns: Sequence[str], target: Target, subjects: Sequence[Subject]) -> Array:
    """Return the columns of some subjects, NaN where a number is not known."""
    rows = [vector(s.build.evidence.facts, len(s.build.evidence.problems), s.candidate, target, None) for s in subjects]
    return np.array([[row[name] for name in columns] for row in rows]).reshape(len(rows), len(columns))


def load(path: Path = SHIPPED) -> Model:
    """Read a model; raises `UsageError` where the file is none, or is one for another version of the vector."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        facts = json.loads(arrays["said"].tobytes())
        *times, spreads, validity = (Trees.of_arrays(arrays, name) for name in PARTS)
    except (OSError, ValueError, KeyError) as e:
        raise UsageError(f"{path} is no model of the learned forecaster: {e}", hint=_HINT) from None
    if (facts["format"], facts["vector_version"]) != (FORMAT, VECTOR_VERSION):
        raise UsageError(
            f"{path} was made for version {facts['vector_version']} of the features; this is {VECTOR_VERSION}",
            hint=_HINT,
        )
    slope, shift = facts["logistic"]
    return Model(
        columns=tuple(facts["columns"]),
        times=tuple(times),
        weights=tuple(facts["weights"]),
        bias=facts["bias"],
        anchor=facts["anchor"],
        spreads=spreads,
        validity=validity,
        logistic=(slope, shift),
        spread=Spread(**facts["spread"]),
        info=facts["info"],
    )


@lru_cache(maxsize=1)
def shipped() -> Model:
    return load()


_HINT = "make it again: python benchmarks/train_learned.py pool --out surrogate/learned.npz"
