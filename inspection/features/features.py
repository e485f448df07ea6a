"""Numeric features of a candidate before it runs: tunables, compiled facts and sizes, as a versioned vector.

No list of known facts is kept: each compiler says what it can, and whatever arrives becomes a column.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forewarp.core.protocols import Subject
from forewarp.core.values import Candidate, Language, Target, Task
from forewarp.gpu_runner.formats import candidate as candidates

Array = NDArray[np.float64]

_PREFIXES = ("tunable.", "relative.", "fact.")
_SAME_COLUMN = 0.999
_FINE = ("mix.", "width.", "kernel.")
"""Prefixes of facts that are too many for one run's few trials; `vector` has the first two, to learn across tasks."""


def features(task: Task, target: Target, subject: Subject) -> dict[str, float]:
    """Return named numbers for one subject: tunables and sizes as log2, facts as a signed log2(1 + |value|)."""
    candidate, evidence = subject.candidate, subject.build.evidence
    found = {f"tunable.{name}": _log2_size(value) for name, value in candidate.tunables.items()}
    found |= {
        f"fact.{name}": math.copysign(math.log2(1 + abs(value)), value)
        for name, value in evidence.facts.items()
        if math.isfinite(value) and not name.startswith(_FINE)
    }
    found |= _relative(target, evidence.facts) | _sizes(task, target)
    found[f"language.{candidate.language}"] = 1.0
    found["problems"] = float(len(evidence.problems))
    return found


def has_features(subject: Subject) -> bool:
    """Return whether a subject has features of its own, beside its language and those of the task."""
    return bool(subject.candidate.tunables or subject.build.evidence.facts)


def program_of(candidate: Candidate) -> str:
    """Return a key that candidates share when they are one program with different tunables."""
    return _program(candidate.language, candidate.source)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns that tell some subjects apart, with the shift and scale that standardise them."""

    names: tuple[str, ...]
    means: Array
    scales: Array

    @staticmethod
    def over(rows: Sequence[Mapping[str, float]]) -> Columns:
        """Choose the columns from all rows that will ever be compared, tunables first.

        One that never varies or repeats an earlier one is dropped. Indicators (`language.…`) are zero where they are
        missing.
        """
        names = sorted({name for row in rows for name in row}, key=_rank)
        if not names:
            return Columns((), np.zeros(0), np.ones(0))
        table = _table(rows, names)
        counts = np.maximum(1, np.isfinite(table).sum(axis=0))
        means = np.nansum(table, axis=0) / counts
        filled = np.where(np.isfinite(table), table, means) - means
        scales = np.sqrt((filled**2).mean(axis=0))
        kept = _distinct(filled, scales)
        return Columns(tuple(names[i] for i in kept), means[kept], scales[kept])

    def matrix(self, rows: Sequence[Mapping[str, float]]) -> Array:
        """Return the standardised rows; a missing value becomes the column's mean, that is zero."""
        table = (_table(rows, self.names) - self.means) / self.scales
        return np.where(np.isfinite(table), table, 0.0)


def _table(rows: Sequence[Mapping[str, float]], names: Sequence[str]) -> Array:
    table = np.full((len(rows), len(names)), np.nan)
    for j, name in enumerate(names):
        missing = 0.0 if name.startswith("language.") else math.nan
        table[:, j] = [row.get(name, missing) for row in rows]
    return table


def _distinct(centred: Array, scales: Array) -> list[int]:
    """Return the columns that vary and are not (nearly) a multiple of an earlier one that is kept."""
    kept: list[int] = []
    for j in np.flatnonzero(scales > 1e-9):
        column = centred[:, j] / scales[j]
        others: Any = centred[:, kept] / scales[kept]
        if not kept or np.abs(others.T @ column).max() / len(column) < _SAME_COLUMN:
            kept.append(int(j))
    return kept


def _rank(name: str) -> tuple[int, str]:
    place = next((i for i, prefix in enumerate(_PREFIXES) if name.startswith(prefix)), len(_PREFIXES))
    return place, name


def _log2_size(value: float) -> float:
    """Return log2 of a positive size, continued monotonically below one (0 is a common "off" value)."""
    return math.log2(value) if value > 0 else -math.log2(2 - value)


def _relative(target: Target, facts: Mapping[str, float]) -> dict[str, float]:
    """Return facts as shares of what the target has, where both are known."""
    found: dict[str, float] = {}
    if facts.get("blocks", 0) > 0 and target.processors > 0:
        found["relative.blocks_per_processor"] = math.log2(facts["blocks"] / target.processors)
    if "shared_bytes" in facts and target.shared_bytes:
        found["relative.shared_share"] = facts["shared_bytes"] / target.shared_bytes
    return {name: value for name, value in found.items() if math.isfinite(value)}


def _sizes(task: Task, target: Target) -> dict[str, float]:
    """Return the mean log2 of each numeric workload constant; the same for all candidates of a task."""
    values: dict[str, list[float]] = {}
    for workload in task.workloads.get(target.kind, ()):
        for name, value in workload.constants.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                values.setdefault(name, []).append(_log2_size(value))
    return {f"size.{name}": sum(found) / len(found) for name, found in values.items()}


@lru_cache(maxsize=1024)
def _program(language: Language, source: str) -> str:
    return f"{language}\0{candidates.normalise(Candidate(source, language))}"
