"""Pools as datasets: export, merge, deduplicate, count and check."""

from __future__ import annotations

import math
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from forewarp.archive import dedupe
from forewarp.archive.pools import check, columns, counts, parquet, splits
from forewarp.archive.pools.check import keyed
from forewarp.archive.pools.counts import PoolCounts
from forewarp.archive.rows import RecordedRow
from forewarp.archive.store import Archive, default_path
from forewarp.core.errors import TaskError, UsageError
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.parts import Part
from forewarp.tools.requests import (
    CheckRequest,
    DeduplicateRequest,
    Destination,
    ExportRequest,
    MergeRequest,
    Placing,
    PoolsRequest,
)

MOST_PROBLEMS = 200


class PoolProblem(Part):
    """One problem of a pool, and its location."""

    kind: str = Field(description="schema, values, hash, split, leak or text.")
    where: str
    message: str


class DataResult(Part):
    """Result of a command on pools: rows and files written, counts, or problems."""

    rows: int = Field(description="Rows that were written, or looked at.")
    files: list[str] = Field(default_factory=list[str], description="Files that were written.")
    left_out: dict[str, int] = Field(default_factory=dict[str, int], description="What was not taken, by reason.")
    counts: PoolCounts | None = None
    problems: list[PoolProblem] = Field(default_factory=list[PoolProblem], description=f"The first {MOST_PROBLEMS}.")
    problem_counts: dict[str, int] = Field(default_factory=dict[str, int], description="All problems, by kind.")


def export_data(request: ExportRequest) -> DataResult:
    """Write the measurements of an archive, or of other pools, as one pool."""
    out = _destination(request)
    table, families = _placing(request)
    chosen = (splits.assign(r, table, families) for r in _exported(request))
    kept = (row for row in chosen if request.split is None or row.origin.split == request.split)
    kept = map(_with_features, kept) if request.features else kept
    written = parquet.write_table(_flat_unleaked(kept, with_samples=request.samples), columns.schema(), out)
    return DataResult(rows=written, files=[str(out)])


def merge_pools(request: MergeRequest) -> DataResult:
    """Write several pools as one, assigning families and splits anew."""
    path = _destination(request)
    table, families = _placing(request)
    files = _files(request.pools)
    rows = (_placed(row, table, families) for file in files for row in parquet.columns_of(file))
    return DataResult(rows=parquet.write_table(_unleaked(rows), columns.schema(), path), files=[str(path)])


def deduplicate(request: DeduplicateRequest) -> DataResult:
    """Write pools without duplicate kernels, keeping the row with the narrowest interval of each."""
    path = _destination(request)
    files = _files(request.pools)
    chosen = dedupe.choose(row for file in files for row in parquet.columns_of(file, dedupe.COLUMNS))
    kept = frozenset(chosen.kept)
    rows = (row for n, row in enumerate(r for file in files for r in parquet.columns_of(file)) if n in kept)
    written = parquet.write_table(_unleaked(rows), columns.schema(), path)
    left_out = {"same text": chosen.same_text, "same compiled code": chosen.same_code}
    return DataResult(rows=written, files=[str(path)], left_out=left_out)


def count_pools(request: PoolsRequest) -> DataResult:
    """Count the rows of pools by task, family, split, language and more."""
    files = _files(request.pools)
    found = counts.count(row for file in files for row in parquet.columns_of(file, counts.COLUMNS))
    return DataResult(rows=found.total.rows, counts=found)


def check_pools(request: CheckRequest) -> DataResult:
    """Check pools for problems with their schema, values, hashes, splits and texts, and for leaks between splits."""
    files = _files(request.pools)
    table = splits.load(_path(request.splits) or splits.DEFAULT)
    shown: list[PoolProblem] = []
    kinds: Counter[str] = Counter()
    for problem in check.check(files, table):
        kinds[problem.kind] += 1
        if len(shown) < MOST_PROBLEMS:
            shown.append(PoolProblem(kind=problem.kind, where=problem.where, message=problem.message))
    readable = [f for f in files if not any(p.kind == "schema" and p.where == f.name for p in shown)]
    rows = sum(1 for file in readable for _ in parquet.columns_of(file, ("task",)))
    return DataResult(rows=rows, problems=shown, problem_counts=dict(kinds))


def _exported(request: ExportRequest) -> Iterator[RecordedRow]:
    if request.pools and (request.archive or request.run):
        raise UsageError(
            "rows come either from pools or from the archive", hint="leave --archive and --run, or the pools"
        )
    if not request.pools:
        path = Path(request.archive).expanduser() if request.archive else default_path()
        if not path.is_file():
            raise UsageError(f"there is no archive at {path}", hint="pass --archive PATH, or the pools to export from")
        with Archive(path) as archive:
            run = archive.run(request.run).id if request.run else None
            held = archive.recorded(target_name=request.target, run=run, pairs=request.pairs)
    else:
        held = (row for p in request.pools for row in parquet.rows_of(_existing(p)))
    for row in held:
        against = request.pairs or row.against is None
        named = request.task in (None, row.task.name) and request.target in (None, row.target.name)
        if against and named:
            yield row


def _placed(row: dict[str, Any], table: Mapping[str, str], families: Mapping[str, str]) -> dict[str, Any]:
    family, split = splits.place(row["task"], row["family"], table, families)
    return row | {"family": family, "split": split}


def _flat_unleaked(rows: Iterable[RecordedRow], *, with_samples: bool = False) -> Iterator[dict[str, Any]]:
    return _unleaked(columns.flat(row, with_samples=with_samples) for row in rows)


def _unleaked(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Pass rows on; raise `UsageError` after the last one if any two splits share something."""
    leaks = splits.Leaks()
    for row in rows:
        leaks.add(keyed(row))
        yield row
    splits.refuse(leaks.found())


def _placing(placing: Placing) -> tuple[dict[str, str], dict[str, str]]:
    """Return the split of each family, and the family of each task that is known by name."""
    table = splits.load(_path(placing.splits) or splits.DEFAULT)
    known = _families(tasks.BUNDLED) | _families(_existing(placing.tasks) if placing.tasks else None)
    unknown = sorted(set(placing.families.values()) - set(table))
    if unknown:
        raise UsageError(
            f"no split is known for family {', '.join(unknown)}", hint=f"families: {', '.join(sorted(table))}"
        )
    return table, known | placing.families


def _families(folder: Path | None) -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sorted(folder.glob("*/task.toml")) if folder else ():
        try:
            family = tomllib.loads(file.read_text()).get("family")
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as e:
            raise TaskError(f"{file} cannot be read: {e}") from None
        if isinstance(family, str) and family:
            found[file.parent.name] = family
    return found


def _with_features(row: RecordedRow) -> RecordedRow:
    from forewarp.inspection.features.vector import VECTOR_VERSION, vector

    seen = row.build.evidence
    found = vector(seen.facts, len(seen.problems), row.candidate, row.target, row.measurement.anchor_s)
    known = {name: value for name, value in found.items() if not math.isnan(value)}
    written = columns.to_json({"version": VECTOR_VERSION} | known)
    return replace(row, origin=replace(row.origin, features=written))


def _destination(out: Destination) -> Path:
    path = Path(out.out).expanduser()
    if path.suffix != ".parquet":
        raise UsageError(f"{path} is no name for a pool", hint="pass --out with a name that ends in .parquet")
    return _free(path, overwrite=out.overwrite)


def _free(path: Path, *, overwrite: bool) -> Path:
    if path.exists() and not overwrite:
        raise UsageError(f"{path} is there already", hint="pass --overwrite to replace it, or another --out")
    return path


def _files(pools: Sequence[str]) -> list[Path]:
    return [file for pool in pools for file in parquet.files_of(_existing(pool))]


def _existing(path: str) -> Path:
    found = Path(path).expanduser()
    if not found.exists():
        raise UsageError(f"there is nothing at {found}", hint="pass the path of a file or folder on this machine")
    return found


def _path(path: str | None) -> Path | None:
    return None if path is None else _existing(path)
