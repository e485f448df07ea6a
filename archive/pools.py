"""Pools: recorded measurements as flat Parquet rows, to publish, to learn from and to replay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from forewarp.archive.rows import RecordedRow
from forewarp.archive.store import Archive


def write_pool(
    archive: Archive,
    path: str | Path,
    *,
    task_sha256: str | None = None,
    target_name: str | None = None,
    run: str | None = None,
) -> int:
    """Write the finished measurements that match as one Parquet file; returns how many rows it has."""
    raise NotImplementedError


def write_rows(rows: Sequence[RecordedRow], path: str | Path) -> None:
    """Write rows from any origin as one Parquet file."""
    raise NotImplementedError


def read_pool(path: str | Path) -> list[RecordedRow]:
    """Read a Parquet file, or every `*.parquet` of a folder, in order; raises `ArchiveError`.

    The rows are what `gpu_runner.executors.replay.ReplayExecutor` takes.
    """
    raise NotImplementedError
