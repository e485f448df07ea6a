"""Check pools before they are published or learned from: schema, hashes, splits, and texts that reveal speed.

    python benchmarks/pool_checks.py pool

Prints each flaw and ends with 1 where there is any. `schema`: the schema differs, or the file cannot be read; `values`:
values that contradict each other; `hash`: not the hash of what it stands for; `split`: another split than the family's;
`leak`: splits that share a task, a program, a text or compiled code, also between files; `text`: comments or docstrings
that speak of speed, also in plans and in CUDA inside Python strings.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from forewarp.archive import text
from forewarp.archive.pools import columns, parquet
from forewarp.archive.pools import splits as pool_splits
from forewarp.archive.pools.splits import Leaks, keyed
from forewarp.core import serde
from forewarp.core.errors import ArchiveError
from forewarp.core.values import Candidate, Language, Measurement, Status, Task, Verdict

SPEAKS_OF_SPEED = re.compile(
    r"\b(fast|slow|naive|naïve|(un)?optimi[sz]|speed|baseline|(in)?efficien|performan|quick|bottleneck)\w*",
    re.IGNORECASE,
)
"""Words in a comment or docstring that give a kernel's speed away."""

ProblemKind = Literal["schema", "values", "hash", "split", "leak", "text"]


@dataclass(frozen=True, slots=True)
class Flaw:
    """Defect of a pool in a file, or in a row by its number and kernel."""

    kind: ProblemKind
    where: str
    message: str


def check(files: list[Path], splits: Mapping[str, str]) -> Iterator[Flaw]:
    """Yield every problem of these pools; leaks are looked for over all of them together."""
    leaks = Leaks()
    for file in files:
        wrong = list(_schema(file))
        yield from wrong
        if wrong:
            continue
        for number, row in enumerate(parquet.columns_of(file), 1):
            where = f"{file.name} row {number} ({row['task']} {row['kernel_sha256'][:10]})"
            for kind, message in _row(row, splits):
                yield Flaw(kind, where, message)
            leaks.add(keyed(row))
    for leak in leaks.found():
        yield Flaw("leak", ", ".join(f.name for f in files), leak)


def _schema(file: Path) -> Iterator[Flaw]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        schema = pq.read_schema(file)
        next(parquet.columns_of(file), None)
    except (OSError, pa.ArrowException) as e:
        yield Flaw("schema", file.name, f"cannot be read: {e}")
        return
    except ArchiveError as e:
        yield Flaw("schema", file.name, e.message)
        return
    if (schema.metadata or {})[columns.MARK].decode() != columns.FORMAT:
        return
    for column in columns.schema():
        if schema.field(column.name).type != column.type:
            yield Flaw(
                "schema", file.name, f"column {column.name} is {schema.field(column.name).type}, not {column.type}"
            )
    for name in sorted(set(schema.names) - set(columns.schema().names)):
        yield Flaw("schema", file.name, f"column {name} is no column of a pool")


def _row(row: Mapping[str, Any], splits: Mapping[str, str]) -> Iterator[tuple[ProblemKind, str]]:
    full = (*columns.STRINGS, *columns.TEXT_LISTS, *columns.PER_SHAPE)
    missing = [name for name in full if row[name] is None]
    if missing:
        yield "values", f"{', '.join(missing)} may be empty, but not null"
        return
    for message in _values(row):
        yield "values", message
    for message in _hashes(row):
        yield "hash", message
    if row["split"] != splits.get(row["family"], ""):
        expected = splits.get(row["family"], "") or "none"
        yield "split", f"family {row['family']!r} belongs to {expected}, not to {row['split'] or 'none'}"
    for remark in text.remarks(row["source"], row["language"]):
        word = SPEAKS_OF_SPEED.search(remark)
        if word:
            yield "text", f"a comment says {word[0]!r}: {' '.join(remark.split())[:80]}"


def _values(row: Mapping[str, Any]) -> Iterator[str]:
    for name, allowed in (("language", Language), ("status", Status), ("verdict", Verdict)):
        if row[name] not in get_args(allowed):
            yield f"{name} {row[name]!r} is unknown"
    speedup, low, high = row["speedup"], row["low"], row["high"]
    if (row["status"] == "ok") != (speedup is not None):
        yield f"status is {row['status']} and speed-up {speedup}: a speed-up exists exactly where the status is ok"
    if speedup is not None and not speedup > 0:
        yield f"the speed-up is {speedup}"
    elif row["bin"] != columns.bin_of(speedup):
        yield f"bin {row['bin']} is not that of speed-up {speedup}"
    held = None not in (low, high, speedup) and 0 < low <= speedup <= high
    if (low, high) != (None, None) and not held:
        yield f"the interval {low} to {high} does not hold the speed-up {speedup}"
    if (row["against"] == "reference") != (not row["against_language"]):
        yield "a row against another kernel holds that kernel, and no other row does"
    if len({len(row[name]) for name in (*columns.PER_SHAPE, "shape_workload")}) > 1:
        yield "the columns per shape are not equally long"


def _hashes(row: Mapping[str, Any]) -> Iterator[str]:
    try:
        candidate = Candidate(row["source"], row["language"], json.loads(row["tunables"]))
        task = serde.from_data(Task, json.loads(row["task_json"]))
        measured = serde.from_data(Measurement, json.loads(row["measurement_json"]))
        for name in ("facts", "target_json", "signatures_json", "build_json"):
            json.loads(row[name])
    except (ValueError, TypeError, KeyError) as e:
        yield f"a JSON column cannot be read: {e}"
        return
    keys = text.keys(candidate)
    computed = {
        "kernel_sha256": candidate.sha256,
        "task_sha256": task.sha256,
        "stripped_sha256": keys.stripped,
        "program": keys.program,
    }
    if row["against_language"]:
        tunables = json.loads(row["against_tunables"])
        computed["against"] = Candidate(row["against_source"], row["against_language"], tunables).sha256
    for name, value in computed.items():
        if row[name] != value:
            yield f"{name} is {row[name][:10]}, but what it stands for hashes to {value[:10]}"
    if (measured.speedup, measured.status, measured.anchor) != (row["speedup"], row["status"], row["against"]):
        yield "measurement_json is another measurement than the columns say"


def main(paths: list[str]) -> int:
    files = [file for path in paths for file in parquet.files_of(Path(path))]
    flaws = list(check(files, pool_splits.load()))
    for flaw in flaws:
        print(f"{flaw.kind}: {flaw.where}: {flaw.message}")
    return 1 if flaws else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
