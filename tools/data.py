"""Write measurements of the archive, or of other pools, as a pool."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from forewarp.archive.pools import columns, parquet, splits
from forewarp.archive.rows import RecordedRow
from forewarp.archive.store import Archive, default_path
from forewarp.core.errors import TaskError, UsageError
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.parts import Part
from forewarp.tools.requests import ExportRequest


class DataResult(Part):
    """Result of writing a pool: its rows, and the file."""

    rows: int = Field(description="Rows that were written.")
    files: list[str] = Field(default_factory=list[str], description="Files that were written.")


def export_data(request: ExportRequest) -> DataResult:
    """Write the measurements of an archive, or of other pools, as one pool."""
    out = _destination(request)
    table, families = _placing(request)
    chosen = (splits.assign(r, table, families) for r in _exported(request))
    kept = (row for row in chosen if request.split is None or row.origin.split == request.split)
    kept = map(_with_features, kept) if request.features else kept
    written = parquet.write_table(_flat_unleaked(kept, with_samples=request.samples), columns.schema(), out)
    return DataResult(rows=written, files=[str(out)])


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


def _flat_unleaked(rows: Iterable[RecordedRow], *, with_samples: bool) -> Iterator[dict[str, Any]]:
    """Yield rows as columns; raise `UsageError` after the last one if any two splits share something."""
    leaks = splits.Leaks()
    for row in rows:
        flat = columns.flat(row, with_samples=with_samples)
        leaks.add(splits.keyed(flat))
        yield flat
    splits.refuse(leaks.found())


def _placing(placing: ExportRequest) -> tuple[dict[str, str], dict[str, str]]:
    """Return the split of each family, and the family of each task that is known by name."""
    table = splits.load(_existing(placing.splits) if placing.splits else splits.DEFAULT)
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


def _destination(request: ExportRequest) -> Path:
    path = Path(request.out).expanduser()
    if path.suffix != ".parquet":
        raise UsageError(f"{path} is no name for a pool", hint="pass --out with a name that ends in .parquet")
    if path.exists() and not request.overwrite:
        raise UsageError(f"{path} is there already", hint="pass --overwrite to replace it, or another --out")
    return path


def _existing(path: str) -> Path:
    found = Path(path).expanduser()
    if not found.exists():
        raise UsageError(f"there is nothing at {found}", hint="pass the path of a file or folder on this machine")
    return found
