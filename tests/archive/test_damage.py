"""Bytes of an archive that change on the disk: said in words, and what can be read is kept."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from support import synthetic_executor as synthetic
from support.recorded_run import Writer

from forewarp.archive.pages import Pages
from forewarp.archive.store import Archive
from forewarp.cli.main import main
from forewarp.core.values import Build, Measurement

OK = Measurement("ok", "faster", "synthetic-1", "T0", speedup=2.0, low=1.9, high=2.1)
SEEDS = range(40)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "a.db"
    with Archive(path) as archive:
        for count in (120, 60):
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
    kept: set[int] = set()
    kernels: dict[object, bool] = {}
    pages = Pages.read(whole)
    rows: list[tuple[int, object]] = []
    for record in pages.records():
        # Its long values may go on in other pages: only what lies on its own is asked about here.
        if len(record.values) == 4:
            kernels[record.values[0]] = record.page not in changed and len(str(record.values[2])) < 1500
        elif len(record.values) == 21 and sum(len(v) for v in record.values if isinstance(v, str | bytes)) < 1500:
            if record.page not in changed:
                rows.append((record.rowid, record.values[6]))
    kept |= {number for number, kernel in rows if kernels.get(kernel)}
    return kept


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
