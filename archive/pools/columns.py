"""The columns of a pool: from a row to plain Arrow types and back. `pool/README.md` lists them."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from forewarp.archive import samples, text
from forewarp.archive.rows import Origin, RecordedRow
from forewarp.core import bins, serde
from forewarp.core.values import Build, Candidate, Measurement, Signature, Target, Task

FORMAT = "2"
MARK = b"forewarp.pool"
UNKNOWN_INTERVAL = (0.0, sys.float_info.max)
"""The interval of a speed-up on one shape where the source gives none; null in the columns."""

STRINGS = (
    *("task", "task_sha256", "family", "split", "target", "device", "driver", "date"),
    *("kernel_sha256", "raw_sha256", "stripped_sha256", "binary_sha256", "program", "parent", "proposer"),
    *("language", "source", "tunables", "status", "verdict", "against"),
    *("against_language", "against_source", "against_tunables"),
    *("facts", "features", "source_dataset", "source_id", "run", "version"),
    *("task_json", "target_json", "signatures_json", "build_json", "measurement_json"),
)
NUMBERS = ("speedup", "low", "high", "device_s")
PER_SHAPE = tuple(f"shape_{name}" for name in ("speedup", "low", "high", "candidate_s", "anchor_s"))
TEXT_LISTS = ("shape_workload", "problems", "tags")


def schema() -> Any:
    """Return the `pyarrow.Schema` of pools: strings, doubles, one integer, and lists of the first two."""
    import pyarrow as pa

    return pa.schema(
        [
            *((name, pa.string()) for name in STRINGS),
            *((name, pa.float64()) for name in NUMBERS),
            ("bin", pa.int64()),
            *((name, pa.list_(pa.float64())) for name in PER_SHAPE),
            *((name, pa.list_(pa.string())) for name in TEXT_LISTS),
        ],
        metadata={MARK: FORMAT},
    )


def flat(row: RecordedRow, *, with_samples: bool = False) -> dict[str, Any]:
    """Return a row as columns; without `with_samples`, times of single runs are left out of the exact columns."""
    m, keys, kernel, anchor = row.measurement, text.keys(row.candidate), row.candidate, row.against
    origin = {f.name: getattr(row.origin, f.name) for f in fields(Origin)}
    return origin | {
        "task": row.task.name,
        "task_sha256": row.task.sha256,
        "family": row.origin.family or row.task.family,
        "target": row.target.name,
        "driver": m.environment.get("driver", ""),
        "date": row.finished,
        "kernel_sha256": kernel.sha256,
        "raw_sha256": row.origin.raw_sha256 or raw_sha256(kernel.source),
        "stripped_sha256": keys.stripped,
        "binary_sha256": row.build.binary_sha256,
        "program": keys.program,
        "language": kernel.language,
        "source": kernel.source,
        "tunables": to_json(kernel.tunables),
        "against": m.anchor,
        "against_language": anchor.language if anchor else "",
        "against_source": anchor.source if anchor else "",
        "against_tunables": to_json(anchor.tunables) if anchor else "",
        "facts": to_json(row.build.evidence.facts),
        "problems": list(row.build.evidence.problems),
        "tags": list(row.origin.tags),
        "run": row.run or "",
        "version": row.version,
        **{name: getattr(m, name) for name in ("device", "status", "verdict", *NUMBERS)},
        "bin": bin_of(m.speedup),
        **_shapes(m),
        "task_json": to_json(replace(row.task, seeds=())),
        "target_json": to_json(row.target),
        "signatures_json": to_json(row.signatures),
        # The artefact is a folder on the machine that compiled; nobody else can load it.
        "build_json": to_json(replace(row.build, artefact="")),
        "measurement_json": to_json(m) if with_samples else samples.split(m)[0],
    }


def unflat(row: Mapping[str, Any]) -> RecordedRow:
    def read(kind: Any, column: str) -> Any:
        return serde.from_data(kind, json.loads(row[column]))

    task: Task = read(Task, "task_json")
    against = None
    if row["against_language"]:
        against = Candidate(row["against_source"], row["against_language"], json.loads(row["against_tunables"]))
    origin: dict[str, Any] = {f.name: row[f.name] for f in fields(Origin) if row[f.name]}
    origin |= {"family": row["family"] or task.family, "tags": tuple(row["tags"])}
    return RecordedRow(
        task=task,
        target=read(Target, "target_json"),
        signatures=read(tuple[Signature, ...], "signatures_json"),
        candidate=Candidate(row["source"], row["language"], json.loads(row["tunables"])),
        build=read(Build, "build_json"),
        measurement=read(Measurement, "measurement_json"),
        run=row["run"] or None,
        finished=row["date"],
        version=row["version"],
        against=against,
        origin=Origin(**origin),
    )


def bin_of(speedup: float | None) -> int | None:
    """Return the bin of a speed-up (0..7), None where there is none."""
    return None if speedup is None else bins.bin_of(speedup)


def raw_sha256(source: str) -> str:
    """Return the hash of a text as it stands, without space around it."""
    return hashlib.sha256(source.strip().encode()).hexdigest()


def to_json(value: Any) -> str:
    return json.dumps(serde.to_data(value), separators=(",", ":"))


def _shapes(measurement: Measurement) -> dict[str, list[Any]]:
    timings = measurement.workloads
    intervals = [(None, None) if (t.low, t.high) == UNKNOWN_INTERVAL else (t.low, t.high) for t in timings]
    return {
        "shape_workload": [t.workload for t in timings],
        "shape_speedup": [t.speedup for t in timings],
        "shape_low": [low for low, _ in intervals],
        "shape_high": [high for _, high in intervals],
        "shape_candidate_s": [t.candidate_median_s for t in timings],
        "shape_anchor_s": [t.anchor_median_s for t in timings],
    }
