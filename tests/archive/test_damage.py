"""Bytes of an archive that change on the disk: said in words, and what can be read is kept."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import synthetic_executor as synthetic
from support.recorded_run import CARD, Writer

from forewarp.archive import salvage
from forewarp.archive.store import Archive
from forewarp.cli.main import main
from forewarp.core.errors import ArchiveError, UsageError
from forewarp.core.values import Build, Measurement

OK = Measurement("ok", "faster", "synthetic-1", "T0", speedup=2.0, low=1.9, high=2.1)
SEEDS = range(16)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "a.db"
    with Archive(path) as archive:
        for count in (40, 20):
            Writer(archive, count).write()
        for tile in (16, 32, 64):
            kernel = synthetic.seed(TILE=tile)
            archive.record(synthetic.task(), synthetic.TARGET, kernel, Build("ok", 0.0), OK)
    return path


def flipped(whole: Path, path: Path, seed: int) -> Path:
    """Copy the archive and change bytes of it: one, a few, many, or a whole page."""
    rng = random.Random(seed)
    content = bytearray(whole.read_bytes())
    if seed % 4 == 3:
        page = rng.randrange(len(content) // 4096)
        content[page * 4096 : (page + 1) * 4096] = rng.randbytes(4096)
    for _ in range((1, 8, 200, 1)[seed % 4]):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8) if seed % 2 else rng.randrange(1, 256)
    path.write_bytes(content)
    return path


def results(path: Path) -> dict[str, tuple[object, ...]]:
    """Return each measured kernel's identity with its result."""
    with Archive(path) as archive:
        return {
            f"{m.id} {m.candidate.sha256}": (m.measurement.verdict, m.measurement.speedup)
            for m in archive.measurements()
            if m.measurement is not None
        }


def intact(whole: Path, damaged: Path) -> set[int]:
    """Return the measurements of which no byte changed: neither their pages nor those of their kernel."""
    before, after = whole.read_bytes(), damaged.read_bytes()
    changed = {i // 4096 + 1 for i in range(0, len(before), 4096) if before[i : i + 4096] != after[i : i + 4096]}
    kernels: dict[object, bool] = {}
    rows: list[tuple[int, object]] = []
    for record in salvage.read_pages(Path(shutil.copy(whole, damaged.with_name("whole.db")))).rows:
        # Long values go on in other pages: only what lies in one is asked about here.
        here = record.page not in changed and sum(len(v) for v in record.values if isinstance(v, str | bytes)) < 1500
        if len(record.values) == 4:
            kernels[record.values[0]] = here
        elif len(record.values) == 21 and here:
            rows.append((record.rowid, record.values[6]))
    return {number for number, kernel in rows if kernels.get(kernel)}


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    exit_code = main(arguments)
    said = capsys.readouterr()
    text = said.out + said.err
    assert "this is a bug" not in text, text
    assert "Traceback" not in text
    assert exit_code != 1, text
    return exit_code, text


@pytest.mark.parametrize("seed", SEEDS)
def test_flipped_bytes_are_said_in_words_and_the_rest_is_kept(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    path = flipped(whole, tmp_path / "a.db", seed)
    with Archive(whole) as archive:
        ids = [r.id for r in archive.runs()]
    true = results(whole)
    expected = intact(whole, path)
    archive = ["--archive", str(path)]
    pool = ["data", "export", "--out", str(tmp_path / "pool.parquet")]
    for verb in (["runs"], *(["show", i, "--json"] for i in ids), pool):
        run([*verb, *archive], capsys)
    before = path.read_bytes()
    checked, _ = run(["archive", "check", *archive], capsys)
    assert path.read_bytes() == before
    code, said = run(["archive", "repair", *archive], capsys)
    assert code == 0, said
    damaged = path.with_name("a.db.damaged-1")
    assert damaged.exists() == (checked == 73)
    if damaged.exists():
        assert damaged.read_bytes() == before
        assert "lost:" in said
    found = results(path)
    assert {i for i, value in found.items() if true.get(i) != value} == set(), "no result changed unnoticed"
    assert expected <= {int(i.split()[0]) for i in found}
    # What is left is an archive like any other.
    assert run(["archive", "check", *archive], capsys)[0] == 0
    for i in ids:
        run(["show", i, *archive], capsys)
    run(["runs", *archive], capsys)
    with Archive(path) as opened:
        opened.record(synthetic.task(), synthetic.TARGET, synthetic.seed(), Build("ok", 0.0), OK)


def test_what_a_query_meets_is_said_with_the_row(whole: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(whole, tmp_path / "a.db"))
    content = path.read_bytes()
    place = content.index(b'"verdict":"faster"')
    path.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
    with Archive(path) as archive, pytest.raises(ArchiveError, match="is damaged") as e:
        archive.measurements()
    assert "forewarp archive repair --archive" in e.value.hint
    before = results(whole)
    found = salvage.repair(path)
    assert found.rows["measurement"] == len(before) - 1
    assert any("measurement" in line for line in found.lost)
    assert len(results(path)) == len(before) - 1


def test_a_number_that_changed_is_no_result(whole: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(whole, tmp_path / "a.db"))
    content = path.read_bytes()
    place = content.rindex(b'"speedup":2.0') + len(b'"speedup":')
    path.write_bytes(content[:place] + b"9" + content[place + 1 :])
    with Archive(path) as archive, pytest.raises(ArchiveError, match=r"measurement \d+ cannot be read"):
        archive.measurements()


def test_a_kernel_that_changed_is_no_kernel(whole: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(whole, tmp_path / "a.db"))
    content = path.read_bytes().replace(b"y[0] = TILE * x[0]", b"y[0] = TILE + x[0]")
    path.write_bytes(content)
    with Archive(path) as archive, pytest.raises(ArchiveError, match="is damaged"):
        archive.measurements()


@pytest.mark.parametrize("page", [1, 2, 3, 5])
def test_a_destroyed_page_costs_only_its_own_rows(whole: Path, tmp_path: Path, page: int) -> None:
    path = Path(shutil.copy(whole, tmp_path / "a.db"))
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = bytes(4096)
    path.write_bytes(content)
    expected = intact(whole, path)
    with contextlib.suppress(ArchiveError, UsageError):
        Archive(path).close()
    found = salvage.repair(path)
    assert not found.sound
    assert found.damaged is not None
    assert expected <= {int(i.split()[0]) for i in results(path)}
    if page == 1:  # the schema: every row is still there
        assert results(path) == results(whole)


def test_a_sound_archive_is_left_alone(whole: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(whole, tmp_path / "a.db"))
    found = salvage.repair(path)
    assert (found.sound, found.damaged) == (True, None)
    assert path.read_bytes() == whole.read_bytes()
    assert [p.name for p in tmp_path.iterdir()] == ["a.db"]
    with sqlite3.connect(whole) as db:
        for table, count in found.rows.items():
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == count
    db.close()


def test_what_is_still_in_the_write_ahead_log_is_kept(whole: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(whole, tmp_path / "a.db"))
    code = (
        "import os, sys; from forewarp.archive.store import Archive; archive = Archive(sys.argv[1]);"
        " archive.add_spend(None, 'tokens', 41); archive.add_spend(None, 'tokens', 42); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)
    log = tmp_path / "a.db-wal"
    assert log.stat().st_size > 0
    content = bytearray(path.read_bytes())
    content[:4096] = bytes(4096)  # SQLite no longer takes the file, and the log goes with it
    path.write_bytes(content)
    salvage.repair(path)
    with sqlite3.connect(path) as db:
        assert db.execute("SELECT sum(amount) FROM spend WHERE kind = 'tokens' AND run IS NULL").fetchone()[0] == 83
    db.close()


def test_an_archive_that_is_open_elsewhere_is_not_repaired(whole: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(whole, tmp_path / "a.db"))
    code = (
        "import sys; from forewarp.archive.store import Archive; archive = Archive(sys.argv[1]); archive.runs();"
        " print('open', flush=True); sys.stdin.read()"
    )
    other = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(ArchiveError, match="open in another process"):
            salvage.repair(path)
        assert other.stdin is not None
        other.stdin.close()
    assert salvage.repair(path).sound


def test_another_programs_database_is_not_repaired(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.close()
    with pytest.raises(UsageError, match="not an archive of forewarp"):
        salvage.repair(path)
    assert [p.name for p in tmp_path.iterdir()] == ["other.db"]


@pytest.mark.parametrize("purpose", ["candidate", "confirm"])
def test_a_lost_measurement_of_the_winner_leaves_a_run_that_can_be_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], purpose: str
) -> None:
    path = tmp_path / "a.db"
    with Archive(path) as archive:
        made = Writer(archive, 20)
        made.write()
        best = archive.best(made.run)
        assert best is not None
        where: Any = {"run": made.run, "proposal": best.proposal, "purpose": "confirm"}
        number = archive.begin_measurement(made.task, CARD, best.candidate, **where)
        archive.finish_measurement(number, replace(OK, device=CARD.name), Build("ok", 0.0))
    with sqlite3.connect(path) as db:
        db.execute("DROP TRIGGER measurement_kept")
        db.execute("DELETE FROM measurement WHERE purpose = ? AND kernel = ?", (purpose, best.candidate.sha256))
        assert db.execute("SELECT changes()").fetchone()[0] > 0
    db.close()
    for verb in (["runs"], ["show"], ["report", "--out", str(tmp_path / "report.html")]):
        assert run([*verb, "--archive", str(path)], capsys)[0] == 0
