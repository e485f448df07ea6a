from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pool_checks
import pytest
from support import synthetic_executor as synthetic
from support.full_measurement import full_measurement

from forewarp.archive import samples
from forewarp.archive.pools import columns, parquet, splits
from forewarp.archive.rows import RecordedRow
from forewarp.archive.store import Archive
from forewarp.core.errors import ArchiveError, UsageError
from forewarp.core.protocols import Proposal, Subject
from forewarp.core.values import Build

SERIES = ("log_ratios", "candidate_s", "anchor_s", "candidate_hz", "anchor_hz")
RECORDED = Path(__file__).parents[3] / "benchmarks" / "results" / "pool_h200.parquet"


def write_pool(archive: Archive, path: Path, *, with_samples: bool = False, **which: str) -> int:
    table = splits.load()
    rows = (splits.assign(row, table) for row in archive.recorded(**which))
    return parquet.write_rows(rows, path, with_samples=with_samples)


@pytest.fixture
def archive(tmp_path: Path):
    executor = synthetic.SyntheticExecutor()
    with Archive(tmp_path / "a.db") as opened:
        for task in (synthetic.task(), replace(synthetic.task(name="other"), reference="class Model: pass")):
            opened.add_signatures(task, executor.target, executor.describe(task))
            for unroll in (1, 2, 16):
                kernel = synthetic.seed(UNROLL=unroll, WIDTH=8)
                build = executor.compile(task, kernel)
                opened.record(task, executor.target, kernel, build, executor.measure(task, kernel, build))
        yield opened


def test_a_pool_holds_what_the_archive_holds(archive: Archive, tmp_path: Path) -> None:
    assert write_pool(archive, tmp_path / "out" / "pool.parquet") == 6
    found = parquet.read_pool(tmp_path / "out" / "pool.parquet")
    expected = archive.recorded()
    assert [r.measurement for r in found] == [samples.join(samples.split(r.measurement)[0], None) for r in expected]
    assert [r.candidate for r in found] == [r.candidate for r in expected]
    assert [r.signatures for r in found] == [r.signatures for r in expected]
    assert {r.task.sha256 for r in found} == {r.task.sha256 for r in expected}
    assert {r.target for r in found} == {synthetic.TARGET}
    assert all(r.task.seeds == () for r in found)
    assert all(r.build.artefact == "" and r.build.binary_sha256 for r in found)
    assert [r.finished for r in found] == [r.finished for r in expected]


def test_a_pool_can_be_of_one_task_and_a_folder_of_several_files(archive: Archive, tmp_path: Path) -> None:
    folder = tmp_path / "pools"
    for task in {r.task.sha256 for r in archive.recorded()}:
        assert write_pool(archive, folder / f"{task[:8]}.parquet", task_sha256=task) == 3
    assert len(parquet.read_pool(folder)) == 6
    assert write_pool(archive, tmp_path / "none.parquet", target_name="no such") == 0
    assert parquet.read_pool(tmp_path / "none.parquet") == []


def test_every_field_comes_back(archive: Archive, tmp_path: Path) -> None:
    full = full_measurement()
    number = archive.record(synthetic.task(), synthetic.TARGET, synthetic.seed(), Build("ok", 0.0), full)
    write_pool(archive, tmp_path / "p.parquet", with_samples=True)
    assert parquet.read_pool(tmp_path / "p.parquet")[-1].measurement == full == archive.measurement(number).measurement
    write_pool(archive, tmp_path / "q.parquet")
    bare = parquet.read_pool(tmp_path / "q.parquet")[-1].measurement
    assert [replace(w, control=None, warm=None, cycles=None, launched=None) for w in bare.workloads] == [
        replace(
            w,
            **dict.fromkeys(SERIES, ()),
            **dict.fromkeys(("control", "warm", "cycles", "launched")),
        )
        for w in full.workloads
    ]
    assert replace(bare, workloads=full.workloads) == full
    assert (tmp_path / "q.parquet").stat().st_size < (tmp_path / "p.parquet").stat().st_size / 2


def test_a_pool_of_an_earlier_version_can_be_read() -> None:
    measured = [r.measurement for r in parquet.read_pool(RECORDED)]
    assert len(measured) == 579
    assert all(w.candidate_s and w.control is None for m in measured for w in m.workloads)
    assert {m.anchor for m in measured} == {"reference"}


def test_the_flat_columns_are_for_people(archive: Archive, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    write_pool(archive, tmp_path / "p.parquet")
    rows = pq.read_table(tmp_path / "p.parquet").to_pylist()
    assert {r["task"] for r in rows} == {"toy", "other"}
    assert [r["status"] for r in rows[:3]] == ["ok", "ok", "incorrect"]
    assert rows[0]["speedup"] > 0
    assert rows[2]["speedup"] is None


def test_the_columns_are_plain_arrow_types(archive: Archive, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_pool(archive, tmp_path / "p.parquet")
    schema = pq.read_schema(tmp_path / "p.parquet")
    plain = (pa.string(), pa.float64(), pa.int64(), pa.list_(pa.string()), pa.list_(pa.float64()))
    assert all(any(kind == one for one in plain) for kind in schema.types)
    assert schema.equals(columns.schema())
    (row, *_) = pq.read_table(tmp_path / "p.parquet").to_pylist()
    assert row["shape_workload"] == ["small"]
    assert row["shape_speedup"] == [row["speedup"]]
    assert row["bin"] == 2
    assert (row["family"], row["split"], row["tags"]) == ("", "", [])
    assert b"datasets" not in b"".join((schema.metadata or {}).values())


def test_family_and_split_follow_from_the_task(tmp_path: Path) -> None:
    executor, task = synthetic.SyntheticExecutor(), replace(synthetic.task(), family="scan")
    with Archive(tmp_path / "a.db") as archive:
        build = executor.compile(task, synthetic.seed())
        archive.record(task, executor.target, synthetic.seed(), build, executor.measure(task, synthetic.seed(), build))
        write_pool(archive, tmp_path / "p.parquet")
    (row,) = parquet.read_pool(tmp_path / "p.parquet")
    assert (row.origin.family, row.origin.split) == ("scan", "validation")


def test_a_run_s_rows_say_who_proposed_them_and_from_what(tmp_path: Path) -> None:
    executor, task, parent, child = synthetic.SyntheticExecutor(), synthetic.task(), "ab" * 32, synthetic.seed()
    with Archive(tmp_path / "a.db") as archive:
        run = archive.create_run(task, executor.target, {}, {})
        (proposal,) = archive.add_proposals(run, 0, [Proposal(child, "llm", parent)])
        build = executor.compile(task, child)
        number = archive.begin_measurement(
            task, executor.target, child, run=run, proposal=proposal, purpose="candidate"
        )
        archive.finish_measurement(number, executor.measure(task, child, build), build)
        write_pool(archive, tmp_path / "p.parquet", run=run)
    (row,) = parquet.read_pool(tmp_path / "p.parquet")
    assert (row.origin.proposer, row.origin.parent, row.run) == ("llm", parent, run)


def test_a_kernel_that_was_the_anchor_is_kept(archive: Archive, tmp_path: Path) -> None:
    executor, task = synthetic.SyntheticExecutor(), synthetic.task()
    anchor, kernel = synthetic.seed(), synthetic.seed(UNROLL=4)
    build = executor.compile(task, kernel)
    number = archive.begin_measurement(task, executor.target, kernel, against=anchor)
    archive.finish_measurement(number, executor.measure(task, kernel, build, Subject(anchor, build)), build)
    assert len(archive.recorded()) == 6
    parquet.write_rows(archive.recorded(pairs=True), tmp_path / "p.parquet")
    *others, pair = parquet.read_pool(tmp_path / "p.parquet")
    assert pair.against == anchor
    assert pair.measurement.anchor == anchor.sha256
    assert all(r.against is None for r in others)


def test_what_was_read_can_be_written_again(archive: Archive, tmp_path: Path) -> None:
    write_pool(archive, tmp_path / "p.parquet")
    rows = parquet.read_pool(tmp_path / "p.parquet")
    parquet.write_rows(rows, tmp_path / "q.parquet")
    assert parquet.read_pool(tmp_path / "q.parquet") == rows
    assert (tmp_path / "q.parquet").read_bytes() == (tmp_path / "p.parquet").read_bytes()


def test_rows_of_one_task_and_the_tasks_of_a_pool(archive: Archive, tmp_path: Path) -> None:
    write_pool(archive, tmp_path / "p.parquet")
    held = parquet.tasks_of(tmp_path / "p.parquet")
    assert sorted(t.name for t in held.values()) == ["other", "toy"]
    for sha256 in held:
        assert len(parquet.read_pool(tmp_path / "p.parquet", task_sha256=sha256)) == 3


def test_a_failure_leaves_the_old_file(archive: Archive, tmp_path: Path) -> None:
    write_pool(archive, tmp_path / "p.parquet")
    before = (tmp_path / "p.parquet").read_bytes()

    def rows() -> Iterator[RecordedRow]:
        yield from archive.recorded()
        raise UsageError("no more")

    with pytest.raises(UsageError, match="no more"):
        parquet.write_rows(rows(), tmp_path / "p.parquet")
    assert (tmp_path / "p.parquet").read_bytes() == before
    assert [f.name for f in tmp_path.iterdir() if "part" in f.name] == []


def test_the_recorded_pool_is_in_order_once_written_anew(tmp_path: Path) -> None:
    rows = parquet.rows_of(RECORDED)
    assert parquet.write_rows((row for row, _ in zip(rows, range(30), strict=False)), tmp_path / "p.parquet") == 30
    assert list(pool_checks.check([tmp_path / "p.parquet"], splits.load())) == []
    assert {r.candidate.language for r in parquet.read_pool(tmp_path / "p.parquet")} == {"cuda", "triton"}


def test_files_of_another_kind_in_a_folder_are_no_pools(archive: Archive, tmp_path: Path) -> None:
    import pyarrow as pa

    write_pool(archive, tmp_path / "pools" / "p.parquet")
    schema = pa.schema([("x", pa.int64())], metadata={"forewarp.forecasts": "1"})
    parquet.write_table([{"x": 1}], schema, tmp_path / "pools" / "p.forecasts.parquet")
    assert len(parquet.read_pool(tmp_path / "pools")) == 6
    parquet.write_table([{"x": 1}], pa.schema([("x", pa.int64())]), tmp_path / "pools" / "stranger.parquet")
    with pytest.raises(ArchiveError, match="stranger"):
        parquet.read_pool(tmp_path / "pools")
    cut = columns.schema().remove(0)
    parquet.write_table([], cut.with_metadata({"forewarp.pool": "2"}), tmp_path / "cut.parquet")
    with pytest.raises(ArchiveError, match="no column task"):
        parquet.read_pool(tmp_path / "cut.parquet")


def test_what_is_no_pool(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pytest.raises(UsageError, match="no pool"):
        parquet.read_pool(tmp_path / "missing.parquet")
    (tmp_path / "text.parquet").write_text("hello")
    with pytest.raises(ArchiveError, match="cannot be read"):
        parquet.read_pool(tmp_path / "text.parquet")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(ArchiveError, match="not a pool"):
        parquet.read_pool(tmp_path / "other.parquet")
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="cannot be written"):
        parquet.write_rows([], tmp_path / "file" / "p.parquet")


def test_the_repository_s_folder_of_pools_is_read_whole() -> None:
    folder = Path(__file__).parents[3] / "pool"
    assert [f.stem for f in parquet.files_of(folder)] == ["test", "train", "validation"]
