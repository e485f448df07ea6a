"""An executor that looks recorded measurements up instead of making them again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forewarp.archive.rows import RecordedRow
from forewarp.core.errors import TaskError, UsageError
from forewarp.core.protocols import Subject
from forewarp.core.values import Build, Candidate, Measurement, Signature, Target, Task


class ReplayExecutor:
    """Answers from recorded rows, of a kernel the first; raises `UsageError` for one that the pool does not hold."""

    def __init__(self, rows: Sequence[RecordedRow], target: Target) -> None:
        """Rows of other targets or anchors are left out; raises `UsageError` if none is left."""
        self.target, self.devices = target, 1
        self._rows: dict[tuple[str, str], RecordedRow] = {}
        self._signatures: dict[str, tuple[Signature, ...]] = {}
        for row in rows:
            if row.target.name != target.name or row.measurement.anchor != "reference":
                continue
            task = row.task.sha256
            self._rows.setdefault((task, row.candidate.sha256), row)
            self._signatures[task] = row.signatures or self._signatures.get(task, ())
        if not self._rows:
            held = ", ".join(sorted({r.target.name for r in rows})) or "none"
            raise UsageError(f"the replay pool holds no measurement on {target.name!r}", hint=f"its targets: {held}")

    def describe(self, task: Task) -> tuple[Signature, ...]:
        """Return the recorded signatures, empty if none were recorded; raises `TaskError` for an unknown task."""
        if task.sha256 not in self._signatures:
            held = ", ".join(sorted({row.task.name for row in self._rows.values()}))
            raise TaskError(f"the replay pool holds no measurement of task {task.name!r}", hint=f"it holds {held}")
        return self._signatures[task.sha256]

    def candidates(self, task: Task) -> tuple[Candidate, ...]:
        sha256 = task.sha256
        return tuple(row.candidate for (of, _), row in self._rows.items() if of == sha256)

    def compile(self, task: Task, candidate: Candidate) -> Build:
        return replace(self._row(task, candidate).build, cached=True)

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        """Return the recorded measurement; raises `UsageError` for any other anchor than the reference."""
        if against is not None:
            raise UsageError(
                "a replay holds measurements against the reference only", hint="measure on a real device: --device auto"
            )
        return replace(self._row(task, candidate).measurement, source="replay")

    def close(self) -> None:
        """Nothing to end."""

    def _row(self, task: Task, candidate: Candidate) -> RecordedRow:
        row = self._rows.get((task.sha256, candidate.sha256))
        if row is None:
            raise UsageError(
                f"the replay pool does not hold kernel {candidate.short} for task {task.name!r} on {self.target.name}",
                hint="propose from the pool itself (its recorded candidates), or measure on a real device",
            )
        return row
