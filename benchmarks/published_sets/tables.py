"""Readers of Parquet, JSON Lines and JSON files that check their columns."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

from forewarp.core.errors import UsageError

Record = dict[str, Any]
BATCH = 500


def files(paths: Sequence[Path], suffixes: Sequence[str]) -> list[Path]:
    """Return the files of these kinds that the paths name, those of folders in order; raises `UsageError`."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.name.endswith(tuple(suffixes)) and p.is_file())
            if not inside:
                raise UsageError(
                    f"{path} holds no {' or '.join(suffixes)} file", hint="pass the folder of the data files"
                )
            found += inside
        elif not path.is_file():
            raise UsageError(f"there is no file {path}", hint="pass a local copy: nothing is downloaded")
        elif not path.name.endswith(tuple(suffixes)):
            raise UsageError(f"{path} is no {' or '.join(suffixes)} file", hint="pass the files as they were published")
        else:
            found.append(path)
    return found


def columns(file: Path) -> list[str]:
    """Return the names of the columns of a Parquet or JSON Lines file, those of its first line."""
    if file.suffix == ".parquet":
        import pyarrow.parquet as pq

        found: Any = _read(file, partial(pq.read_schema, file))
        return list(found.names)
    return list(next(_lines(file), {}))


def records(file: Path, required: Sequence[str], what: str) -> Iterator[Record]:
    """Yield the rows of a Parquet or JSON Lines file; raises `UsageError` that names the columns that are missing."""
    found = columns(file)
    missing = [name for name in required if name not in found]
    if missing:
        raise UsageError(
            f"{file} is no {what}: it has no column {', '.join(missing)}",
            hint=f"it has {', '.join(found) or 'no columns'}; benchmarks/README.md lists the columns of each kind",
        )
    return _rows(file) if file.suffix == ".parquet" else _lines(file)


def load_json(file: Path) -> Any:
    """Return the content of a JSON file, which may be packed by gzip; raises `UsageError`."""

    def load() -> Any:
        if file.suffix != ".gz":
            return json.loads(file.read_text())
        with gzip.open(file, "rt") as unpacked:
            return json.load(unpacked)

    return _read(file, load)


def read_text(file: Path) -> str:
    """Return a text file; raises `UsageError`."""
    return _read(file, file.read_text)


def number(value: Any) -> float | None:
    """Return a finite number, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) < float("inf") else None


def positive(value: Any) -> float | None:
    """Return a positive finite number, None for anything else."""
    found = number(value)
    return found if found is not None and found > 0 else None


def mapping(value: Any) -> Record:
    """Return a mapping, which may be written as JSON; an empty one for anything else."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return cast("Record", value) if isinstance(value, dict) else {}


def sequence(value: Any) -> list[Any]:
    """Return a list; an empty one for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def _rows(file: Path) -> Iterator[Record]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as opened:
            for batch in opened.iter_batches(batch_size=BATCH):
                yield from batch.to_pylist()
    except (OSError, pa.ArrowException) as e:
        raise _unreadable(file, e) from None


def _lines(file: Path) -> Iterator[Record]:
    try:
        with file.open() as opened:
            for number, line in enumerate(opened, 1):
                if line.strip():
                    found = json.loads(line)
                    if not isinstance(found, dict):
                        raise UsageError(f"{file} line {number} is no JSON object")
                    yield cast("Record", found)
    except (OSError, ValueError) as e:
        raise _unreadable(file, e) from None


def _read(file: Path, action: Callable[[], Any]) -> Any:
    import pyarrow as pa

    try:
        return action()
    except (OSError, ValueError, pa.ArrowException) as e:
        raise _unreadable(file, e) from None


def _unreadable(file: Path, error: Exception) -> UsageError:
    return UsageError(f"{file} cannot be read: {error}", hint="pass an intact file, as it was published")
