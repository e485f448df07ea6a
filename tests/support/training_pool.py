"""A small pool with the three splits, in each a task of its own, whose outcomes follow a known frequency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from contracts.forecaster_contract import TARGET, TASK, failed, measured, subject

from forewarp.archive.pools.parquet import write_rows
from forewarp.archive.rows import Origin, RecordedRow

SLOW, FAST = 0.6, 1.2
TASKS: dict[str, tuple[str, float]] = {
    "alpha": ("train", 0.3),
    "beta": ("train", 0.8),
    "gamma": ("validation", 0.5),
    "delta": ("test", 0.5),
}
"""Split of each task, and the share of its candidates that is fast."""

EACH = 10


def rows(names: Sequence[str] = tuple(TASKS), *, invalid: int = 0) -> list[RecordedRow]:
    """Return ten candidates of each task, of which the first `invalid` are wrong; no two tasks share a program."""
    made: list[RecordedRow] = []
    for name in names:
        split, share = TASKS[name]
        task = replace(TASK, name=name, title=name, family=f"{name} family", reference=f"{TASK.reference}# {name}\n")
        for place in range(EACH):
            asked = subject(2**place, f"float {name} = 2; y[i] = {name} * x[i];")
            outcome = failed() if place < invalid else measured(FAST if place >= EACH * (1 - share) else SLOW)
            build = replace(asked.build, binary_sha256=f"{name}{place}")
            made.append(
                RecordedRow(
                    *(task, TARGET, (), asked.candidate, build, outcome, None, "2026-11-20T00:00:00", "0"),
                    origin=Origin(family=task.family, split=split),
                )
            )
    return made


def write(path: Path, *, invalid: int = 0) -> str:
    """Write all of it."""
    write_rows(rows(invalid=invalid), path)
    return str(path)
