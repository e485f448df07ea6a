from __future__ import annotations

import json
import multiprocessing
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from support import synthetic_executor as synthetic

from forewarp.archive import migrations
from forewarp.archive.store import Archive, default_path
from forewarp.cli.main import main
from forewarp.core import serde
from forewarp.core.errors import ArchiveError
from forewarp.core.values import Build, Measurement, WorkloadTiming

OK = Measurement("ok", "faster", "synthetic-1", "T0", speedup=2.0, low=1.9, high=2.1)
TIMED = replace(OK, workloads=(WorkloadTiming("small", 2.0, 1.9, 2.1, 0.5, 1.0, 0.1, (0.7,), (0.5,), (1.0,)),))


def record(archive: Archive) -> int:
    return archive.record(synthetic.task(), synthetic.TARGET, synthetic.seed(), Build("ok", 0.0), OK)


def test_the_default_path_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FOREWARP_ARCHIVE", str(tmp_path / "mine.db"))
    assert default_path() == tmp_path / "mine.db"
    monkeypatch.delenv("FOREWARP_ARCHIVE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "forewarp" / "archive.db"


def test_closing_twice_is_fine_and_a_closed_one_says_so(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a.db")
    archive.close()
    archive.close()
    with pytest.raises(ArchiveError, match="closed"):
        archive.runs()


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database at all, only some text that is long enough to have a header\n" * 20)
    with pytest.raises(ArchiveError, match="no SQLite file") as e:
        Archive(path)
    assert "--archive" in e.value.hint
    assert path.read_text().startswith("not a database")


def test_a_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    with pytest.raises(ArchiveError, match="another program"):
        Archive(path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="cannot be created") as e:
        Archive(tmp_path / "file" / "sub" / "a.db")
    assert "--archive" in e.value.hint


def test_a_folder_given_as_the_file(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="cannot be opened"):
        Archive(tmp_path)


READ_ONLY = """
import os, sys
from forewarp.archive.store import Archive
from forewarp.core.errors import ArchiveError
Archive(":memory:").close()  # whoever root becomes may not read what is imported late
if os.geteuid() == 0:
    os.setuid(65534)  # root may write anywhere
try:
    with Archive(sys.argv[1]) as archive:
        archive.add_spend(None, "tokens", 1)
except ArchiveError as e:
    print(e)
"""


@pytest.mark.parametrize(("exists", "said"), [(False, "cannot be opened or created"), (True, "cannot be written")])
def test_a_read_only_folder(exists: bool, said: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if exists:
            Archive(folder / "a.db").close()
            (folder / "a.db").chmod(0o444)
        folder.chmod(0o555)
        run = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(folder / "a.db")], capture_output=True, text=True, check=True
        )
        folder.chmod(0o755)
    assert said in run.stdout
    assert "pass --archive PATH" in run.stdout


def test_a_read_only_file_in_words(tmp_path: Path) -> None:
    with Archive(tmp_path / "a.db") as archive:
        archive._db.execute("PRAGMA query_only = ON")
        with pytest.raises(ArchiveError, match="read-only") as e:
            record(archive)
        assert "--archive" in e.value.hint
        archive._db.execute("PRAGMA query_only = OFF")
        record(archive)


def test_a_full_disk_in_words_and_nothing_half_written(tmp_path: Path) -> None:
    with Archive(tmp_path / "a.db") as archive:
        pages = archive._rows("PRAGMA page_count")[0][0]
        archive._db.execute(f"PRAGMA max_page_count = {pages}")

        def fill() -> None:
            for _ in range(200):
                record(archive)

        with pytest.raises(ArchiveError, match="disk is full") as e:
            fill()
        assert "free some space" in e.value.hint
        archive._db.execute("PRAGMA max_page_count = 100000")
        assert all(m.measurement is not None for m in archive.measurements())
        record(archive)


def older(path: Path, steps: int) -> None:
    """Make a file as a forewarp with the first `steps` steps left it: a won run, one measurement under way, a gap."""
    with Archive(":memory:") as archive:  # the values' JSON, as it was before there were samples and anchors
        record(archive)
        rows = {t: [tuple(r) for r in archive._rows(f"SELECT * FROM {t}")] for t in ("kernel", "task", "target")}
    kernel, task, target = rows["kernel"][0][0], rows["task"][0][0], rows["target"][0][0]
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("BEGIN")
    db.execute("CREATE TABLE migration (name TEXT PRIMARY KEY, time TEXT NOT NULL) STRICT")
    for step in migrations.steps()[:steps]:
        migrations.run(db, step)
    for table, [row] in rows.items():
        db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
    run = ("r-1", task, target, rows["task"][0][2], rows["target"][0][1], "{}", "running", "2026-01-01", "1", "{}")
    db.execute(
        "INSERT INTO run (id, task, target, task_data, target_data, settings, status, created, version, environment)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        run,
    )
    for proposal in (1, 2, 3):
        db.execute(
            "INSERT INTO proposal (id, run, round, position, kernel, proposer) VALUES (?, 'r-1', 0, ?, ?, 'tests')",
            (proposal, proposal, kernel),
        )
    build = json.dumps(serde.to_data(Build("ok", 0.0)))
    for number, verdict, speedup in ((3, "faster", 2.0), (7, "suspicious", 9.0)):
        data = json.dumps(serde.to_data(replace(TIMED, verdict=verdict, speedup=speedup)))
        db.execute(
            "INSERT INTO measurement (id, run, proposal, purpose, task, target, kernel, state, started, finished,"
            " version, status, verdict, speedup, low, high, device_s, build, data)"
            " VALUES (?, 'r-1', ?, 'candidate', ?, ?, ?, 'done', '2026', '2026', '1', 'ok', ?, ?, 1.9, 2.1, 0.5, ?, ?)",
            (number, number % 3 + 1, task, target, kernel, verdict, speedup, build, data),
        )
    db.execute(
        "INSERT INTO measurement (id, run, proposal, purpose, task, target, kernel, state, started, version)"
        " VALUES (9, 'r-1', 3, 'candidate', ?, ?, ?, 'started', '2026', '1')",
        (task, target, kernel),
    )
    db.execute("UPDATE sqlite_sequence SET seq = 20 WHERE name = 'measurement'")
    db.execute("COMMIT")
    db.close()


@pytest.mark.parametrize("steps", range(1, 3))
def test_an_older_file_is_brought_up_to_date_with_its_rows(tmp_path: Path, steps: int) -> None:
    path = tmp_path / "a.db"
    older(path, steps)
    with Archive(path) as archive:
        rows = archive.measurements(run="r-1")
        assert [(r.id, r.state, r.anchor) for r in rows] == [
            *((3, "done", "reference"), (7, "done", "reference"), (9, "started", "reference"))
        ]
        assert archive.measurement(3).measurement == TIMED
        best = archive.best("r-1")
        assert best is not None
        assert best.id == 3
        under_way = archive.begin_measurement(
            *(synthetic.task(), synthetic.TARGET, synthetic.seed()), run="r-1", proposal=3, purpose="candidate"
        )
        assert under_way == 9
        archive.finish_measurement(9, replace(TIMED, verdict="impossible"), Build("ok", 0.0))
        assert record(archive) == 21
        for statement in ("DELETE FROM measurement", "UPDATE measurement SET speedup = 9"):
            with pytest.raises(ArchiveError, match="never"):
                archive._write(statement)
        with pytest.raises(ArchiveError, match="UNIQUE"):
            archive._write(
                "INSERT INTO measurement (run, proposal, purpose, task, target, kernel, state, started, version)"
                " SELECT run, proposal, purpose, task, target, kernel, 'started', '', '' FROM measurement WHERE id = 9"
            )
        with pytest.raises(ArchiveError, match="FOREIGN"):
            archive._write(
                "INSERT INTO measurement (run, purpose, task, target, kernel, state, started, version)"
                " SELECT 'r-none', purpose, task, target, kernel, 'started', '', '' FROM measurement WHERE id = 9"
            )
        assert archive._rows("PRAGMA foreign_key_check") == []
        assert archive._rows("PRAGMA integrity_check")[0][0] == "ok"
    with Archive(path) as archive:
        assert migrations.pending(archive._db) == []


def test_an_archive_of_the_first_release_opens_and_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as db:
        db.executescript(Path(__file__).with_name("archive_of_0.1.0.sql").read_text())
    db.close()
    assert main(["show", "latest", "--archive", str(path)]) == 0
    assert "1.02× [0.99, 1.05]" in capsys.readouterr().out
    with Archive(path) as archive:
        assert [(r.id, r.state) for r in archive.measurements(run="r-002c0f")] == [(1, "done"), (2, "done")]
        assert migrations.pending(archive._db) == []


def test_an_updated_file_has_the_schema_of_a_new_one(tmp_path: Path) -> None:
    def schema(path: Path) -> set[tuple[str, str, str]]:
        with Archive(path) as archive:
            return {
                (r[0], r[1], r[2]) for r in archive._rows("SELECT type, name, coalesce(sql, '') FROM sqlite_master")
            }

    older(tmp_path / "old.db", 2)
    assert schema(tmp_path / "old.db") == schema(tmp_path / "new.db")


def with_step(folder: Path, name: str, statements: str) -> Path:
    """Return a folder with all steps and one more."""
    made = Path(shutil.copytree(migrations.SCHEMA, folder / "schema"))
    (made / f"{name}.sql").write_text(statements)
    return made


def test_a_step_that_fails_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Archive(tmp_path / "a.db").close()
    with monkeypatch.context() as newer:
        broken = "CREATE TABLE extra (x INTEGER) STRICT;\nSELECT y FROM extra;\n"
        newer.setattr(migrations, "SCHEMA", with_step(tmp_path, "m0099_broken", broken))
        with pytest.raises(ArchiveError, match="no such column"):
            Archive(tmp_path / "a.db")
    with Archive(tmp_path / "a.db") as archive:
        assert archive._rows("SELECT name FROM sqlite_master WHERE name = 'extra'") == []


def test_a_newer_file_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as newer:
        later = "ALTER TABLE kernel ADD COLUMN mood TEXT;\n"
        newer.setattr(migrations, "SCHEMA", with_step(tmp_path, "m0099_later", later))
        Archive(tmp_path / "a.db").close()
    with pytest.raises(ArchiveError, match="newer forewarp") as e:
        Archive(tmp_path / "a.db")
    assert "upgrade" in e.value.hint


def _write(path: Path) -> None:
    with Archive(path) as archive:
        for _ in range(10):
            record(archive)


def test_processes_open_and_write_one_new_file_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_write, args=(tmp_path / "a.db",)) for _ in range(3)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert [w.exitcode for w in workers] == [0, 0, 0]
    with Archive(tmp_path / "a.db") as archive:
        assert len(archive.measurements()) == 30
