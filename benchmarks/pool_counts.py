"""Counts of a pool's rows: by task, language, bin, failure and split."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from forewarp.archive.pools.splits import NAMES
from forewarp.core import bins

COLUMNS = (
    *("task", "family", "split", "target", "kernel_sha256", "program", "language", "status", "verdict"),
    *("speedup", "bin", "against", "source_dataset"),
)
"""Columns of a row that `count` reads."""


@dataclass(frozen=True, slots=True)
class DataGroup:
    """Group of rows. `programs` counts texts with their launch plans, whatever their tunables.

    `low`, `median`, `high` are the 5th, 50th and 95th percentile of the speed-ups, None where there are none.
    """

    name: str
    rows: int
    programs: int
    worked: int
    low: float | None
    median: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """The rows of one task."""

    family: str
    split: str
    counts: DataGroup


@dataclass(frozen=True, slots=True)
class PoolCounts:
    """Counts of a pool. `failures` counts by status, `pairs` the rows that are against another kernel."""

    total: DataGroup
    tasks: tuple[TaskGroup, ...]
    families: tuple[TaskGroup, ...]
    splits: tuple[DataGroup, ...]
    languages: tuple[DataGroup, ...]
    bins: tuple[tuple[str, int], ...]
    failures: Mapping[str, int]
    verdicts: Mapping[str, int]
    targets: Mapping[str, int]
    datasets: Mapping[str, int]
    kernels: int
    pairs: int


def count(rows: Iterable[Mapping[str, Any]]) -> PoolCounts:
    """Count rows of a pool, given as columns."""
    held = [{name: row[name] for name in COLUMNS} for row in rows]
    by_bin = Counter(row["bin"] for row in held if row["bin"] is not None)
    return PoolCounts(
        total=_group("all", held),
        tasks=_places(held, "task"),
        families=_places(held, "family"),
        splits=tuple(sorted(_groups(held, "split"), key=lambda g: (*NAMES, g.name).index(g.name))),
        languages=tuple(sorted(_groups(held, "language"), key=lambda g: g.name)),
        bins=tuple((f"{label} ({span})", by_bin[k]) for k, (label, span) in enumerate(bins.ranges())),
        failures=_counter(row["status"] for row in held if row["status"] != "ok"),
        verdicts=_counter(row["verdict"] for row in held),
        targets=_counter(row["target"] for row in held),
        datasets=_counter(row["source_dataset"] or "measured by forewarp" for row in held),
        kernels=len({row["kernel_sha256"] for row in held}),
        pairs=sum(row["against"] != "reference" for row in held),
    )


def _counter(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items(), key=lambda item: (-item[1], item[0])))


def _groups(rows: Iterable[Mapping[str, Any]], column: str) -> list[DataGroup]:
    members_of: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        members_of[row[column] or "none"].append(row)
    return [_group(name, members) for name, members in members_of.items()]


def _places(rows: list[dict[str, Any]], column: str) -> tuple[TaskGroup, ...]:
    where = {row[column] or "none": (row["family"], row["split"]) for row in rows}
    groups = [TaskGroup(*where[g.name], g) for g in _groups(rows, column)]
    return tuple(sorted(groups, key=lambda t: ((*NAMES, t.split).index(t.split), t.family, t.counts.name)))


def _group(name: str, rows: list[Any]) -> DataGroup:
    speedups = sorted(row["speedup"] for row in rows if row["speedup"] is not None)
    return DataGroup(
        name=name,
        rows=len(rows),
        programs=len({row["program"] for row in rows}),
        worked=sum(row["status"] == "ok" for row in rows),
        low=_percentile(speedups, 0.05),
        median=_percentile(speedups, 0.5),
        high=_percentile(speedups, 0.95),
    )


def _percentile(ordered: list[float], level: float) -> float | None:
    return ordered[round(level * (len(ordered) - 1))] if ordered else None
