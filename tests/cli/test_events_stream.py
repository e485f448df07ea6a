"""`--events`: a line per event that another program can follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.recorded_pool import Recorded, record

from forewarp.archive.store import Archive, default_path
from forewarp.cli.main import main
from forewarp.report import documents
from forewarp.search.events import Event, Measured, RunFinished, RunResumed, RunStarted, from_data, to_data
from forewarp.tools.parts import Amounts, Place
from forewarp.tools.search import SearchRequest, open_search


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def optimize(recorded: Recorded, *more: str, forecaster: str = "none", budget: int = 4) -> int:
    arguments = ["optimize", recorded.task, *recorded.flags, "--out", "here", "--forecaster", forecaster]
    return main([*arguments, "--budget", str(budget), *more])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def event_of(line: dict[str, Any]) -> Event:
    fields = {k: v for k, v in line.items() if k not in ("seq", "time", "type")}
    return from_data(line["type"], fields)


def test_each_event_is_a_line_with_its_number_and_time(recorded: Recorded, tmp_path: Path) -> None:
    assert optimize(recorded, "--events", "run.jsonl", "--quiet") == 0
    found = lines(tmp_path / "run.jsonl")
    assert [line["seq"] for line in found] == list(range(1, len(found) + 1))
    told = [event_of(line) for line in found]
    assert isinstance(told[0], RunStarted)
    assert isinstance(told[-1], RunFinished)
    assert sum(isinstance(e, Measured) for e in told) == 4
    for line, event in zip(found, told, strict=True):
        assert {k: v for k, v in line.items() if k not in ("seq", "time")} == to_data(event)
    with Archive(default_path()) as archive:
        assert [r.time for r in archive.events(told[0].run)] == [line["time"] for line in found]


def test_a_resumed_run_goes_on_where_the_file_ends(recorded: Recorded, tmp_path: Path) -> None:
    place = Place(device="replay", pool=recorded.pool)
    request = SearchRequest(task=recorded.task, place=place, budget=Amounts(measurements=6), forecaster="none")
    with open_search(request) as job:
        for event in job.events():
            if isinstance(event, Measured):
                job.stop()
        before = job.recorded()
    path = tmp_path / "run.jsonl"
    # What a kill left: the last events are missing, and a line is half written.
    kept = [json.dumps({"seq": r.seq, "time": r.time, "type": r.type, **r.data}) for r in before[:-3]]
    path.write_text("\n".join(kept) + '\n{"seq":99,"ti')
    assert main(["resume", job.run_id, "--pool", recorded.pool, "--events", "run.jsonl", "-q", "--out", "here"]) == 0
    found = lines(path)
    assert [line["seq"] for line in found] == list(range(1, len(found) + 1))
    assert sum(isinstance(event_of(line), RunResumed) for line in found) == 1


def test_events_on_stdout_end_with_the_result(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    assert optimize(recorded, "--events", "-") == 0
    out, err = capsys.readouterr()
    *told, last = [json.loads(line) for line in out.splitlines()]
    assert isinstance(event_of(told[-1]), RunFinished)
    assert last["type"] == "result"
    documents.SearchDocument.model_validate(last)
    assert "\x1b" not in err


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("none/run.jsonl", "there is no folder none"),
        (".", "is a folder"),
        ("mine.txt", "something else than events"),
        ("--json", "name a file"),
    ],
)
def test_a_file_that_cannot_take_events_is_refused_first(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str, said: str
) -> None:
    (tmp_path / "mine.txt").write_text("my notes")
    assert optimize(recorded, "--events", target) == 2
    assert said in capsys.readouterr().err
    assert (tmp_path / "mine.txt").read_text() == "my notes"
    assert not default_path().exists()


def test_what_does_not_go_together_says_what_to_do(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    assert optimize(recorded, budget=0) == 2
    assert "at least 1" in capsys.readouterr().err
    assert optimize(recorded, "--explore", "2") == 2
    assert "would do nothing" in capsys.readouterr().err


def test_the_policys_flags_are_in_the_runs_settings(recorded: Recorded) -> None:
    flags = ["--no-confirm", "--proposals", "5", "--measure-per-round", "2", "--audit", "0.2", "--explore", "1"]
    flags += ["--no-holdout", "--patience", "9"]
    assert optimize(recorded, "--quiet", *flags, forecaster="learned") == 0
    with Archive(default_path()) as archive:
        settings = archive.runs()[0].settings
    names = ("confirm", "proposals_per_round", "audit", "explore", "measure_per_round", "holdout", "patience")
    assert [settings[n] for n in names] == [False, 5, 0.2, 1, 2, False, 9]
