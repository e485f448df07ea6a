"""Scores of the archive's forecasts: of one run, and of all runs on a device."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.recorded_pool import record

from forewarp.archive.store import Archive
from forewarp.cli.main import main
from forewarp.tools.calibration import faster_on_record, scores_of_run
from forewarp.tools.parts import Place


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> str:
    recorded = record(tmp_path_factory.mktemp("pool"), every=5)
    folder = tmp_path_factory.mktemp("archive")
    path = str(folder / "archive.sqlite")
    where = ("--archive", path, "--out", str(folder / "out"))
    assert main(["optimize", recorded.task, *recorded.flags, *where, "--budget", "8", "--quiet"]) == 0
    return path


def test_forecasts_of_a_device_are_found_by_its_name(archive: str) -> None:
    place = Place(archive=archive)
    with Archive(archive) as opened:
        (run,) = opened.runs()
        scores = scores_of_run(run.task.name, opened.candidates(run.id))["learned"]
    assert scores.ece is not None
    found = faster_on_record(place, run.target.name, "learned")
    assert found is not None
    assert found.outcomes == sum(p.count for p in scores.faster) > 0
    assert found.points == scores.faster
    assert faster_on_record(place, "another device") is None
    assert faster_on_record(Place(archive=f"{archive}.missing"), run.target.name) is None


def test_an_archive_without_runs_has_none(tmp_path: Path) -> None:
    path = str(tmp_path / "none.sqlite")
    Archive(path).close()
    assert faster_on_record(Place(archive=path), "any") is None
