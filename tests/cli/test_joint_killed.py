"""A process that searches for several targets is killed or interrupted, and its search is taken up again."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from support.cards import NARROW, WIDE, record_two
from support.recorded_pool import Recorded

from forewarp.archive.store import Archive, default_path
from forewarp.cli.main import main

pytestmark = pytest.mark.slow

BUDGET = 8
COMMAND = [sys.executable, "-m", "forewarp.cli.main"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record_two(tmp_path_factory.mktemp("pool"))


def rows_of(table: str) -> int:
    """Return how many rows the archive's table has; 0 before there is one."""
    try:
        with closing(sqlite3.connect(f"file:{default_path()}?mode=ro", uri=True)) as opened:
            return int(opened.execute(f"SELECT count(*) FROM {table}").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def chosen(found: dict[str, object]) -> list[object]:
    runs = found["runs"]
    assert isinstance(runs, list)
    return [(r["device"]["name"], r["best"]["kernel"]["sha256"], r["budget"]["spent"]["measurements"]) for r in runs]


def begun(command: list[str], folder: Path, table: str, count: int) -> subprocess.Popen[bytes]:
    """Start a search and wait until the archive's table has so many rows."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ))
    while process.poll() is None and rows_of(table) < count:
        time.sleep(0.001)
    return process


@pytest.mark.parametrize(
    ("table", "count"),
    [("proposal", 1), ("proposal", 17), *(("measurement", n) for n in (1, 2, 5, 9, 13, 14, 15))],
)
def test_it_goes_on_with_exact_totals_and_measures_nothing_twice(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str, count: int
) -> None:
    targets = ["--target", f"{WIDE.name},{NARROW.name}", "--budget", str(BUDGET), "--seed", "3"]
    events = tmp_path / "events.jsonl"
    rest = ["--json", "--out", str(tmp_path / "out"), "--events", str(events)]
    command = [*COMMAND, "optimize", recorded.task, *recorded.flags, *targets, *rest]
    process = begun(command, tmp_path, table, count)
    process.kill()
    process.wait()
    with Archive(default_path()) as archive:
        runs = archive.runs()
        assert len(runs) == 2
        assert "running" in {run.status for run in runs}
        group = str(runs[0].settings["group"])
    assert main(["resume", group, *recorded.flags, *rest]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == "finished"
    told = Counter(e["run"] for e in map(json.loads, events.read_text().splitlines()))
    with Archive(default_path()) as archive:
        for run in runs:
            done = archive.measurements(run=run.id)
            assert {m.state for m in done} == {"done"}
            assert len({(m.candidate.sha256, m.purpose) for m in done}) == len(done) <= BUDGET
            assert archive.spend(run.id).measurements == len(done)
            assert told[run.id] == len(archive.events(run.id))
    assert main(["optimize", recorded.task, *recorded.flags, *targets, "--json", "--out", str(tmp_path / "again")]) == 0
    assert chosen(json.loads(capsys.readouterr().out)) == chosen(found)


@pytest.mark.parametrize("times", [1, 2])
def test_interrupts_end_all_runs(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str], times: int
) -> None:
    out = tmp_path / "out"
    targets = ["--target", f"{WIDE.name},{NARROW.name}", "--budget", "40", "--patience", "0"]
    command = [*COMMAND, "optimize", recorded.task, *recorded.flags, *targets, "--quiet", "--out", str(out)]
    process = begun(command, tmp_path, "measurement", 4)
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.01)
    assert process.wait(60) == 130
    with Archive(default_path()) as archive:
        runs = archive.runs()
    assert [run.status for run in runs] == ["interrupted"] * 2
    if times == 1:  # the second one may come while files are written
        assert json.loads((out / "result.json").read_text())["status"] == "interrupted"
    group = str(runs[0].settings["group"])
    assert main(["resume", group, *recorded.flags, "--json", "--out", str(out)]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "finished"
