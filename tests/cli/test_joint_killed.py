"""A process that searches for several targets is killed or interrupted, and its search is taken up again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from support import dying
from support.cards import NARROW, WIDE, record_two
from support.recorded_pool import Recorded

from forewarp.archive.store import Archive, default_path
from forewarp.cli.main import main

pytestmark = pytest.mark.slow

BUDGET = 8
DYING = Path(dying.__file__)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record_two(tmp_path_factory.mktemp("pool"))


def chosen(found: dict[str, object]) -> list[object]:
    runs = found["runs"]
    assert isinstance(runs, list)
    return [(r["device"]["name"], r["best"]["kernel"]["sha256"], r["budget"]["spent"]["measurements"]) for r in runs]


def ended(arguments: list[str], folder: Path, table: str, count: int, *signals: str) -> int:
    """Run a command whose process gets signals once the archive's table has so many rows; return how it ended."""
    command = [sys.executable, str(DYING), table, str(count), ",".join(signals), *arguments]
    with (folder / "log").open("wb") as log:
        return subprocess.run(command, stdout=log, stderr=log, check=False, timeout=120).returncode


@pytest.mark.parametrize(
    ("table", "count"),
    [("proposal", 17), *(("measurement", n) for n in (1, 5, 13, 15))],
)
def test_it_goes_on_with_exact_totals_and_measures_nothing_twice(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str], table: str, count: int
) -> None:
    targets = ["--target", f"{WIDE.name},{NARROW.name}", "--budget", str(BUDGET), "--seed", "3"]
    events = tmp_path / "events.jsonl"
    rest = ["--json", "--out", str(tmp_path / "out"), "--events", str(events)]
    command = ["optimize", recorded.task, *recorded.flags, *targets, *rest]
    assert ended(command, tmp_path, table, count, "SIGKILL") == -signal.SIGKILL
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
    command = ["optimize", recorded.task, *recorded.flags, *targets, "--quiet", "--out", str(out)]
    assert ended(command, tmp_path, "measurement", 4, *["SIGINT"] * times) == 130
    with Archive(default_path()) as archive:
        runs = archive.runs()
    assert [run.status for run in runs] == ["interrupted"] * 2
    if times == 1:  # the second one may come while files are written
        assert json.loads((out / "result.json").read_text())["status"] == "interrupted"
    group = str(runs[0].settings["group"])
    assert main(["resume", group, *recorded.flags, "--json", "--out", str(out)]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "finished"
