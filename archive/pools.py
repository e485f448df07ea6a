"""Pools: recorded measurements as flat Parquet rows, to publish, to learn from and to replay.

A row holds the columns that people filter and plot by, and the exact values as JSON in columns that end in `_json`.
`docs/archive.md` lists them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from forewarp.archive.rows import RecordedRow
from forewarp.archive.store import Archive
from forewarp.core import serde
from forewarp.core.errors import ArchiveError, UsageError
from forewarp.core.values import Build, Candidate, Measurement, Signature, Target, Task

FORMAT = "1"
_TEXT = ("task", "task_sha256", "target", "kernel_sha256", "language", "source", "tunables", "status", "verdict")
_NUMBERS = ("speedup", "low", "high", "device_s")
_PROVENANCE = ("device", "finished", "run", "version")
_EXACT = ("workloads_json", "task_json", "target_json", "signatures_json", "build_json", "measurement_json")


def write_pool(
    archive: Archive,
    path: str | Path,
    *,
    task_sha256: str | None = None,
    target_name: str | None = None,
    run: str | None = None,
) -> int:
    """Write the finished measurements that match as one Parquet file; returns how many rows it has."""
    rows = archive.recorded(task_sha256=task_sha256, target_name=target_name, run=run)
    write_rows(rows, path)
    return len(rows)


def write_rows(rows: Sequence[RecordedRow], path: str | Path) -> None:
    """Write rows from any origin as one Parquet file; raises `ArchiveError`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = [(name, pa.string()) for name in (*_TEXT, *_PROVENANCE, *_EXACT)]
    schema = pa.schema([*text, *((name, pa.float64()) for name in _NUMBERS)], metadata={"forewarp.pool": FORMAT})
    table = pa.Table.from_pylist([_flat(r) for r in rows], schema=schema)
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, path, compression="zstd")
    except OSError as e:
        raise ArchiveError(f"the pool {path} cannot be written: {e}", hint="pass a path in a writable folder") from None


def read_pool(path: str | Path) -> list[RecordedRow]:
    """Read a Parquet file, or every `*.parquet` of a folder, in order; raises `UsageError` or `ArchiveError`.

    The rows are what `gpu_runner.executors.replay.ReplayExecutor` takes.
    """
    path = Path(path)
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or not all(f.is_file() for f in files):
        raise UsageError(f"there is no pool at {path}", hint="pass a .parquet file, or a folder that holds some")
    return [row for file in files for row in _read_file(file)]


def _read_file(file: Path) -> list[RecordedRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:
            found = (opened.schema_arrow.metadata or {}).get(b"forewarp.pool", b"").decode()
            if found != FORMAT:
                raise ArchiveError(
                    f"{file} is not a pool of this version (its mark is {found!r}, not {FORMAT!r})",
                    hint="write it again with this version of forewarp",
                )
            table = opened.read()
    except (OSError, pa.ArrowException) as e:
        raise ArchiveError(f"the pool {file} cannot be read: {e}", hint="pass an intact Parquet file") from None
    return [_unflat(r) for r in table.to_pylist()]


def _flat(row: RecordedRow) -> dict[str, Any]:
    m = row.measurement
    return {
        "task": row.task.name,
        "task_sha256": row.task.sha256,
        "target": row.target.name,
        "kernel_sha256": row.candidate.sha256,
        "language": row.candidate.language,
        "source": row.candidate.source,
        "tunables": _json(row.candidate.tunables),
        "status": m.status,
        "verdict": m.verdict,
        "speedup": m.speedup,
        "low": m.low,
        "high": m.high,
        "device_s": m.device_s,
        "device": m.device,
        "finished": row.finished,
        "run": row.run,
        "version": row.version,
        "workloads_json": _json([{"workload": w.workload, "speedup": w.speedup} for w in m.workloads]),
        "task_json": _json(replace(row.task, seeds=())),
        "target_json": _json(row.target),
        "signatures_json": _json(row.signatures),
        # The artefact is a folder on the machine that compiled; nobody else can load it.
        "build_json": _json(replace(row.build, artefact="")),
        "measurement_json": _json(m),
    }


def _unflat(row: dict[str, Any]) -> RecordedRow:
    shapes: list[Any] = json.loads(row["signatures_json"])
    return RecordedRow(
        task=serde.from_data(Task, json.loads(row["task_json"])),
        target=serde.from_data(Target, json.loads(row["target_json"])),
        signatures=tuple(serde.from_data(Signature, s) for s in shapes),
        candidate=Candidate(row["source"], row["language"], json.loads(row["tunables"])),
        build=serde.from_data(Build, json.loads(row["build_json"])),
        measurement=serde.from_data(Measurement, json.loads(row["measurement_json"])),
        run=row["run"],
        finished=row["finished"],
        version=row["version"],
    )


def _json(value: Any) -> str:
    return json.dumps(serde.to_data(value), separators=(",", ":"))
