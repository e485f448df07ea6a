"""`forewarp evaluate` by its command line: what it prints, and the files that it leaves."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support.judged_pool import write

from forewarp.cli import documents
from forewarp.cli.main import main


@pytest.fixture
def pool(tmp_path: Path) -> str:
    return write(tmp_path / "pool.parquet")


def test_two_forecasters_side_by_side(pool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", pool, "--forecasters", "climatology,uniform", "--resamples", "20"]) == 0
    out = capsys.readouterr().out
    assert "climatology − uniform, paired" in out
    assert "Spearman in a task, median ↑" in out
    assert "top 10 %" in out
    assert max(map(len, out.splitlines())) <= 120


def test_json_and_files(pool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "here"
    flags = ["--forecasters", "learned, uniform", "--history", "3", "--resamples", "20", "--out", str(folder)]
    assert main(["evaluate", pool, *flags, "--json"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    document = json.loads(out)
    documents.DOCUMENTS["evaluate"].model_validate(document)
    assert json.loads((folder / "evaluation.json").read_text()) == document
    assert {Path(a["path"]).name for a in document["artifacts"]} == {
        *("evaluation.html", "evaluation.md", "evaluation.json", "forecasts.parquet")
    }
    text = (folder / "evaluation.md").read_text()
    assert "## learned − uniform, paired" in text
    assert "| exact bin ↑ |" in text
    assert main(["evaluate", pool, "--recorded", str(folder / "forecasts.parquet"), "--resamples", "20"]) == 0
    assert "learned − uniform" in capsys.readouterr().out


def test_the_page_stands_alone_and_its_plots_are_well_formed(pool: str, tmp_path: Path) -> None:
    assert (
        main(["evaluate", pool, "--forecasters", "climatology,uniform", "--resamples", "20", "--out", str(tmp_path)])
        == 0
    )
    page = (tmp_path / "evaluation.html").read_text()
    assert not any(word in page for word in ("http://", "https://", "<script", "src="))
    plots = [p[: p.index("</svg>") + 6] for p in page.split("<figure>")[1:]]
    assert len(plots) == 6  # two of reliability, risk and coverage, recovery, and each one's forecasts
    for plot in plots:
        drawn = ET.fromstring(plot)
        width, height = float(drawn.attrib["width"]), float(drawn.attrib["height"])
        for element in drawn:
            for name in ("x1", "x2", "cx", "x"):
                assert 0 <= float(element.attrib.get(name, 0)) <= width
            for name in ("y1", "y2", "cy", "y"):
                assert 0 <= float(element.attrib.get(name, 0)) <= height


def test_refusals_are_documents_too(pool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", pool, "--split", "validation", "--json"]) == 2
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["code"] == "usage"
    assert "--split" in document["error"]["hint"]
    assert main(["evaluate", pool, "--history", "-1"]) == 2
    capsys.readouterr()
    assert main(["evaluate", "--recorded", "nowhere.parquet"]) == 2
    assert "there are no recorded forecasts at nowhere.parquet" in capsys.readouterr().err
    assert main(["evaluate", "--help"]) == 0
    assert "--recorded" in capsys.readouterr().out
