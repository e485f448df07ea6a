"""`forewarp calibration`: on an archive, on a pool, and with nothing to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.recorded_pool import Recorded, record

from forewarp.archive.forecasts import RecordedForecast, beside, write_forecasts
from forewarp.archive.pools.parquet import read_pool
from forewarp.archive.store import Archive
from forewarp.cli import exits
from forewarp.cli.main import main
from forewarp.core import bins
from forewarp.report import documents
from forewarp.tools.calibration import faster_on_record
from forewarp.tools.parts import Place


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"), every=5)


@pytest.fixture(scope="module")
def archive(recorded: Recorded, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("archive")
    path = str(folder / "archive.sqlite")
    where = ("--archive", path, "--out", str(folder / "out"))
    assert main(["optimize", recorded.task, *recorded.flags, *where, "--budget", "16", "--quiet"]) == 0
    return path


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["calibration", *arguments, "--json"]) == 0
    out, _ = capsys.readouterr()
    found = json.loads(out)
    documents.CalibrationDocument.model_validate(found)
    return found


def forecast_of_pool(pool: Path, sd: float) -> None:
    """Record forecasts whose mean is off by `sd` octaves, but which say 0.1."""
    rng = np.random.default_rng(0)
    rows = [
        RecordedForecast(
            *("made up", "", r.task.name, r.candidate.sha256, "reference", "llm:made-up", 0),
            bins.from_normal(float(np.log2(r.measurement.speedup) + rng.normal(0, sd)), 0.1),
            *(1.0, False, "", 10, 10, 0.1, r.measurement.speedup),
        )
        for r in read_pool(pool)
        if r.measurement.speedup
    ]
    write_forecasts(rows, beside(pool))


def test_an_empty_archive_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "none.sqlite")
    Archive(path).close()
    assert main(["calibration", "--archive", path]) == exits.OK
    assert "forewarp optimize" in capsys.readouterr().out
    found = document(capsys, "--archive", path)
    assert (found["status"], found["tiers"]) == ("too_few", [])


@pytest.mark.slow
def test_a_run_is_shown_before_and_after(archive: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--archive", archive)
    (tier,) = (t for t in found["tiers"] if t["forecaster"] == "learned")
    assert tier["valid"] >= tier["needed"]
    assert tier["after"] is not None
    assert tier["drift"]["runs"] == 1
    assert sum(p["count"] for p in tier["before"]["confidence"]) == tier["valid"]
    assert main(["calibration", "--archive", archive]) == exits.OK
    text = capsys.readouterr().out
    for word in ("ECE", "as given", "corrected", "in 80 % interval", "Drift"):
        assert word in text
    assert "\x1b" not in text


def test_a_run_can_be_chosen_and_must_exist(archive: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibration", "--archive", archive, "--run", "nobody"]) == exits.USAGE
    assert "there is no run" in capsys.readouterr().err
    assert document(capsys, "--archive", archive, "--task", "another")["tiers"] == []
    found = document(capsys, "--archive", archive, "--forecaster", "llm")
    assert found["tiers"] == []
    assert "No forecast of forecaster llm" in found["summary"]
    assert "forewarp optimize" not in found["summary"]


def test_too_few_outcomes_say_how_many_more(
    recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = str(tmp_path / "short.sqlite")
    main(["optimize", recorded.task, *recorded.flags, "--archive", path, "--budget", "5", "--quiet"])
    found = document(capsys, "--archive", path)
    assert found["status"] == "too_few"
    tier = found["tiers"][0]
    assert tier["after"] is None
    assert f"{tier['needed'] - tier['valid']} more" in found["summary"]
    main(["calibration", "--archive", path])
    assert "more." in capsys.readouterr().out


def test_forecasts_beside_a_pool_are_corrected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pool = Path(record(tmp_path).pool)
    forecast_of_pool(pool, 1.0)
    found = document(capsys, "--pool", str(pool))
    (tier,) = found["tiers"]
    assert tier["forecaster"] == "llm:made-up"
    assert tier["after"]["nll"] < tier["before"]["nll"]
    assert max(tier["correction"]["spread"], tier["correction"]["tails"]) > 0.05


def test_a_pool_without_forecasts_is_forecast_now(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--pool", recorded.pool, "--forecaster", "learned")
    assert found["source"] == "pool"
    assert found["tiers"][0]["outcomes"] > 20


def test_only_the_learned_forecaster_can_be_asked_about_a_pool(
    recorded: Recorded, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["calibration", "--pool", recorded.flags[-1], "--forecaster", "llm"]) == exits.USAGE
    told = capsys.readouterr().err
    assert "no forecasts of llm are recorded" in told
    assert "--model" not in told


def test_a_pool_has_no_runs(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibration", "--pool", recorded.pool, "--run", "x"]) == exits.USAGE
    assert "no runs" in capsys.readouterr().err


def test_forecasts_of_a_device_are_found_by_its_name(archive: str, capsys: pytest.CaptureFixture[str]) -> None:
    place = Place(archive=archive)
    with Archive(archive) as opened:
        device = opened.runs(limit=1)[0].target.name
    tier = document(capsys, "--archive", archive)["tiers"][0]
    found = faster_on_record(place, device, tier["forecaster"])
    assert found is not None
    assert found.outcomes == tier["outcomes"]
    assert [p.model_dump() for p in found.points] == tier["before"]["faster"]
    assert faster_on_record(place, "another device") is None
    assert faster_on_record(Place(archive=archive + ".missing"), device) is None
