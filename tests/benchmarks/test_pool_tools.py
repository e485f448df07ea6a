"""Counting and checking pools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pool_checks as check
import pool_counts as counts
import pytest
from support import synthetic_executor as synthetic

from forewarp.archive.pools import columns, parquet, splits
from forewarp.archive.rows import Origin, RecordedRow
from forewarp.core.values import Candidate, Evidence

SPLITS = splits.load()


def row(
    candidate: Candidate, *, width: float = 0.03, facts: dict[str, float] | None = None, **origin: Any
) -> RecordedRow:
    executor, task = synthetic.SyntheticExecutor(), synthetic.task()
    build = executor.compile(task, candidate)
    measured = executor.measure(task, candidate, build)
    if measured.speedup is not None:
        s = measured.speedup
        measured = replace(measured, low=s * (1 - width), high=s * (1 + width))
    build = replace(build, evidence=Evidence(facts or {}))
    return RecordedRow(
        task, executor.target, (), candidate, build, measured, None, "2026-11-20", "0", origin=Origin(**origin)
    )


def test_counts() -> None:
    rows = [
        row(synthetic.seed(), family="scan", split="validation"),
        row(synthetic.seed(UNROLL=16, WIDTH=8)),
        row(synthetic.seed(TILE=512, WIDTH=8), source_dataset="others"),
    ]
    found = counts.count(map(columns.flat, rows))
    assert (found.total.rows, found.total.programs, found.total.worked) == (3, 1, 1)
    assert found.total.median == rows[0].measurement.speedup
    assert found.failures == {"compile_error": 1, "incorrect": 1}
    assert [g.name for g in found.splits] == ["validation", "none"]
    assert [(t.family, t.split, t.counts.name) for t in found.families] == [
        ("scan", "validation", "scan"),
        ("", "", "none"),
    ]
    assert sum(n for _, n in found.bins) == 1
    assert found.datasets == {"measured by forewarp": 2, "others": 1}
    assert counts.count([]).total.median is None


@pytest.fixture
def good() -> list[dict[str, Any]]:
    kernels = [synthetic.seed(), synthetic.seed(UNROLL=2), synthetic.seed(TILE=512, WIDTH=8)]
    return [columns.flat(row(k, family="scan", split="validation")) for k in kernels]


def problems(rows: list[dict[str, Any]], folder: Path) -> list[tuple[str, str]]:
    parquet.write_table(rows, columns.schema(), folder / "p.parquet")
    return [(p.kind, p.message) for p in check.check([folder / "p.parquet"], SPLITS)]


def test_a_good_pool_has_no_problem(good: list[dict[str, Any]], tmp_path: Path) -> None:
    assert problems(good, tmp_path) == []


@pytest.mark.parametrize(
    ("change", "kind", "says"),
    [
        ({"kernel_sha256": "00"}, "hash", "kernel_sha256 is 00"),
        ({"task_sha256": "00"}, "hash", "task_sha256"),
        ({"program": "00"}, "hash", "program"),
        ({"stripped_sha256": "00"}, "hash", "stripped_sha256"),
        ({"tunables": "{"}, "hash", "JSON"),
        ({"bin": 7}, "values", "bin 7"),
        ({"low": None}, "values", "interval"),
        ({"low": 100.0}, "values", "interval"),
        ({"status": "crashed", "speedup": None, "bin": None}, "values", "interval"),
        ({"tags": None}, "values", "tags may be empty"),
        ({"facts": "{"}, "hash", "JSON"),
        ({"speedup": None, "low": None, "high": None, "bin": None}, "values", "exactly where the status is ok"),
        ({"status": "fine"}, "values", "'fine'"),
        ({"language": "rust"}, "values", "'rust'"),
        ({"against": "00"}, "values", "against another kernel"),
        ({"shape_low": []}, "values", "equally long"),
        ({"proposer": None}, "values", "proposer"),
        ({"split": "train"}, "split", "'scan' belongs to validation"),
        ({"source": synthetic.SOURCE + "// an optimised version\n"}, "text", "'optimised'"),
        ({"source": synthetic.SOURCE.replace("UNUSED = [0, 1]", "UNUSED = [0, 1] # slower")}, "text", "slower"),
    ],
)
def test_what_is_wrong_is_named(
    good: list[dict[str, Any]], tmp_path: Path, change: dict[str, Any], kind: str, says: str
) -> None:
    found = problems([good[0] | change], tmp_path)
    assert any(k == kind and says in message for k, message in found), found


def test_a_leak_is_a_problem_even_between_files(good: list[dict[str, Any]], tmp_path: Path) -> None:
    parquet.write_table(good, columns.schema(), tmp_path / "a.parquet")
    moved = [r | {"family": "gemm", "split": "train"} for r in good[:1]]
    parquet.write_table(moved, columns.schema(), tmp_path / "b.parquet")
    found = list(check.check([tmp_path / "a.parquet", tmp_path / "b.parquet"], SPLITS))
    assert {p.message.split(" ")[0] for p in found} == {"task", "program", "stripped", "compiled"}
    assert all("train (toy) and validation (toy)" in p.message for p in found)


def test_wrong_schemas_are_named(good: list[dict[str, Any]], tmp_path: Path) -> None:
    import pyarrow as pa

    schema = columns.schema()
    place = schema.get_field_index("bin")
    parquet.write_table(good, schema.set(place, pa.field("bin", pa.float64())), tmp_path / "a.parquet")
    parquet.write_table(good, schema.append(pa.field("more", pa.binary())), tmp_path / "b.parquet")
    parquet.write_table([], pa.schema([("x", pa.int64())]), tmp_path / "c.parquet")
    (tmp_path / "d.parquet").write_text("no")
    found = [list(check.check([tmp_path / f"{n}.parquet"], SPLITS)) for n in "abcd"]
    assert [len(f) for f in found] == [1, 1, 1, 1]
    assert {p.kind for (p,) in found} == {"schema"}
    said = [p.message for (p,) in found]
    assert "column bin is double, not int64" in said[0]
    assert "more" in said[1]
    assert "not a pool" in said[2]
    assert "cannot be read" in said[3]
