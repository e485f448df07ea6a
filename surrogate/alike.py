"""Measured kernels of other tasks that are most like some candidates, for a model to hold them against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarp.archive.rows import RecordedRow
from forewarp.core.protocols import Subject
from forewarp.core.untrusted_text import clip
from forewarp.core.values import REFERENCE, Target, Task
from forewarp.surrogate import evidence_text, pretrained
from forewarp.surrogate.listing import FENCES, listing
from forewarp.surrogate.reference import ReferenceTime

Array = NDArray[np.float64]

SHOWN = 3
"""Kernels that a prompt shows, each of another task."""

_SOURCE = 2_500


@dataclass(frozen=True, slots=True)
class Example:
    """A measured kernel of another task, as a prompt shows it; `facts` are lines."""

    task: str
    device: str
    language: str
    speedup: float
    reference_s: float
    facts: tuple[str, ...]
    code: str
    fence: str


class ExamplePool:
    """Measured kernels to choose examples from: those of GPUs that were correct, compiled and inspected."""

    def __init__(self, rows: Iterable[RecordedRow]) -> None:
        model = pretrained.shipped()
        self._columns = model.columns
        self._rows = [
            r
            for r in rows
            if r.measurement.anchor == REFERENCE
            and r.measurement.believed
            and pretrained.covered(r.target, Subject(r.candidate, r.build))
        ]
        tables = [pretrained.table(model.columns, r.target, [Subject(r.candidate, r.build)]) for r in self._rows]
        table = np.concatenate(tables or [np.zeros((0, len(model.columns)))])
        known = [column[np.isfinite(column)] for column in table.T]
        self._mean = np.array([c.mean() if len(c) else 0.0 for c in known])
        # A column that is known of no kernel, or the same of all, tells nothing.
        self._sd = np.array([c.std() if len(c) and c.std() > 0 else np.inf for c in known])
        self._table = self._scaled(table)

    def nearest(self, task: Task, target: Target, subjects: Sequence[Subject], count: int = SHOWN) -> list[Example]:
        """Return the kernels of other families nearest in the features' space, one of each task."""
        known = [s for s in subjects if pretrained.covered(target, s)]
        if not known or not self._rows:
            return []
        asked = self._scaled(pretrained.table(self._columns, target, known))
        distances = np.sqrt(((self._table[:, None] - asked[None]) ** 2).mean(axis=2)).min(axis=1)
        found: dict[str, Example] = {}
        for place in np.argsort(distances, kind="stable"):
            row = self._rows[int(place)]
            akin = row.task.sha256 == task.sha256 or (task.family and row.task.family == task.family)
            if not akin and row.task.name not in found and len(found) < count:
                found[row.task.name] = _example(row)
        return list(found.values())

    def _scaled(self, table: Array) -> Array:
        return np.nan_to_num((table - self._mean) / self._sd)


def _example(row: RecordedRow) -> Example:
    m, text = row.measurement, listing(row.candidate)
    reference_s = m.anchor_s or 0.0
    facts = evidence_text.lines(row.build.evidence.facts, ReferenceTime({"": reference_s}) if reference_s else None)
    return Example(
        row.task.title,
        row.target.name,
        row.candidate.language,
        m.speedup or 0.0,
        reference_s,
        tuple(facts),
        clip(text.code, _SOURCE),
        FENCES[row.candidate.language],
    )
