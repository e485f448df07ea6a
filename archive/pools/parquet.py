"""Pools: recorded measurements as flat Parquet rows, to publish, to learn from and to replay.

A row holds the columns that people filter and plot by, and the exact values as JSON in columns that end in `_json`.
`pool/README.md` lists them.
"""

from __future__ import annotations

import itertools
import json
import os
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forewarp.archive.pools import columns
from forewarp.archive.pools.columns import MARK
from forewarp.archive.rows import RecordedRow
from forewarp.core import serde
from forewarp.core.errors import ArchiveError, UsageError
from forewarp.core.values import Task

BATCH = 1000


def write_rows(rows: Iterable[RecordedRow], path: str | Path, *, with_samples: bool = False) -> int:
    """Write rows from any origin as one Parquet file, a batch at a time; returns how many. Raises `ArchiveError`."""
    flat = (columns.flat(row, with_samples=with_samples) for row in rows)
    return write_table(flat, columns.schema(), path)


def write_table(rows: Iterable[Mapping[str, Any]], schema: Any, path: str | Path) -> int:
    """Write rows of a `pyarrow.Schema`; the file takes its name once it is whole, so a failure leaves the old one."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    total, waiting = 0, iter(rows)
    with replacing(Path(path)) as part, pq.ParquetWriter(part, schema, compression="zstd") as writer:
        while batch := list(itertools.islice(waiting, BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))
            total += len(batch)
    return total


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """Yield a path beside `path` that takes its place if all goes well; raises `ArchiveError`."""
    part: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
        os.close(handle)
        part = Path(name)
        yield part
        part.chmod(0o644)
        part.replace(path)
    except OSError as e:
        raise ArchiveError(f"the pool {path} cannot be written: {e}", hint="pass a path in a writable folder") from None
    finally:
        if part is not None:
            part.unlink(missing_ok=True)


def read_pool(path: str | Path, *, task_sha256: str | None = None) -> list[RecordedRow]:
    """Read a file, or a folder's pools in order, of one task or all; raises `UsageError`, `ArchiveError`."""
    return list(rows_of(path, task_sha256=task_sha256))


def rows_of(path: str | Path, *, task_sha256: str | None = None) -> Iterator[RecordedRow]:
    """Yield the rows of a file or a folder without holding them all; of one task, or of all."""
    for file in files_of(path):
        for row in columns_of(file):
            if task_sha256 in (None, row["task_sha256"]):
                yield columns.unflat(row)


def tasks_of(path: str | Path) -> dict[str, Task]:
    """Return the tasks of which a pool holds rows, by identity."""
    tasks: dict[str, Task] = {}
    for file in files_of(path):
        for row in columns_of(file, ("task_sha256", "task_json")):
            if row["task_sha256"] not in tasks:
                tasks[row["task_sha256"]] = serde.from_data(Task, json.loads(row["task_json"]))
    return tasks


def files_of(path: str | Path) -> list[Path]:
    """Return the pools that a path names; tables of other kinds that lie in a folder of pools are left out."""
    path = Path(path)
    if not path.is_dir():
        files = [path]
    else:
        inside = sorted(path.glob("*.parquet"))
        files = [f for f in inside if not is_other_kind(f)]
    if not files or not all(f.is_file() for f in files):
        raise UsageError(f"there is no pool at {path}", hint="pass a .parquet file, or a folder that holds some")
    return files


def is_other_kind(file: Path) -> bool:
    """Return whether forewarp wrote this file as something else than a pool."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        marks = pq.read_schema(file).metadata or {}
    except (OSError, pa.ArrowException):
        return False
    return MARK not in marks and any(name.startswith(b"forewarp.") for name in marks)


def columns_of(file: Path, only: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file as columns, `only` some; raises `ArchiveError` for what is no pool."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:
            _check(file, opened.schema_arrow)
            for batch in opened.iter_batches(batch_size=BATCH, columns=None if only is None else list(only)):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as e:
        raise ArchiveError(f"the pool {file} cannot be read: {e}", hint="pass an intact Parquet file") from None


def _check(file: Path, schema: Any) -> None:
    """Raise `ArchiveError` for what is no pool."""
    form = (schema.metadata or {}).get(MARK, b"").decode()
    if form != columns.FORMAT:
        raise ArchiveError(
            f"{file} is not a pool of this version (its mark is {form!r}, not {columns.FORMAT!r})",
            hint="recorded forecasts are passed with --recorded; else write it again with `forewarp data export`",
        )
    missing = set(columns.schema().names) - set(schema.names)
    if missing:
        raise ArchiveError(
            f"the pool {file} has no column {', '.join(sorted(missing))}", hint="pass a pool that forewarp wrote"
        )
