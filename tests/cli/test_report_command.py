"""The page of a run: self-contained, well-formed, of bounded size; and the command that writes it."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.recorded_run import Writer

from forewarp.archive.store import Archive, default_path
from forewarp.cli.main import main
from forewarp.core import serde
from forewarp.report import documents
from forewarp.report.html import chart
from forewarp.report.html.run import page
from forewarp.search.holdout import Holdout, HoldoutShape
from forewarp.tools.run_report import RunRecord, report

OPTIONAL = {"tr", "td", "th", "thead", "tbody", "meta", "html", "p", "li"}


class Checked(HTMLParser):
    """Follows the elements that need an end tag, and keeps the text outside of script and style."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.ids: set[str] = set()
        self.links: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {given["id"] or ""} if "id" in given else set()
        self.links |= {given["href"] or ""} if "href" in given else set()
        if tag not in OPTIONAL and tag not in ("circle", "line", "path", "rect", "polyline", "polygon"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in OPTIONAL and tag not in ("circle", "line", "path", "rect", "polyline", "polygon"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text.append(data)


def checked(text: str) -> Checked:
    """Check a page for balance, links within it, no network, and SVG that an XML reader takes."""
    found = Checked()
    found.feed(text)
    assert found.open == []
    assert found.links <= {f"#{name}" for name in found.ids}
    assert not re.search(r"src=|url\(|@import|https?://", text)
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        root = ET.fromstring(svg)
        assert root.get("aria-label")
        assert not re.search(r"\bnan\b|\binf\b", svg)
    return found


def drawn(archive: Archive, run: str) -> str:
    result = report(archive, run)
    return page(result, RunRecord.read(archive, run))


@pytest.fixture
def archive() -> Iterator[Archive]:
    with Archive(default_path()) as opened:
        yield opened


@pytest.mark.parametrize("kind", ["all", "no forecaster", "nothing correct"])
def test_the_page_is_sound_for_every_kind_of_run(archive: Archive, kind: str) -> None:
    writer = Writer(
        archive, 96, forecaster="" if kind == "no forecaster" else "knowing", correct=kind != "nothing correct"
    )
    text = drawn(archive, writer.write())
    found = checked(text)
    said = " ".join("".join(found.text).split())
    assert "failures" in found.ids
    assert ("forecasts" in found.ids) == (kind != "no forecaster")
    assert ("winner" in found.ids) == (kind != "nothing correct")
    assert ("data-sheet values" in said) == (kind != "nothing correct")
    assert "candidates considered per measurement" in said
    assert "prefers-color-scheme" in text


def test_texts_of_candidates_are_never_markup(archive: Archive) -> None:
    text = drawn(archive, Writer(archive, 96).write())
    assert "__ldg" in text
    assert "&lt; 3 &amp;&amp; y" in text
    assert "< 3 && y" not in text


@pytest.mark.parametrize("count", [240, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("forecaster", ["knowing", ""])
def test_a_page_grows_with_the_run_and_stays_small(archive: Archive, count: int, forecaster: str) -> None:
    text = drawn(archive, Writer(archive, count, forecaster=forecaster).write())
    assert text.count("<tr>") > 0.85 * count
    assert len(text.encode()) < 100_000 + 700 * count


def test_the_latest_run_is_written_where_it_was_asked_for(
    archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Writer(archive, 8).write()
    run = Writer(archive, 16).write()
    assert main(["report", "--json", "--out", "page.html"]) == 0
    document = json.loads(capsys.readouterr().out)
    documents.DOCUMENTS["report"].model_validate(document)
    assert (document["run_id"], document["status"]) == (run, "finished")
    assert Path(document["path"]) == tmp_path / "page.html"
    assert document["bytes"] == (tmp_path / "page.html").stat().st_size
    assert main(["report", run[:6]]) == 0
    assert (tmp_path / "forewarp-runs" / run / "report.html").exists()
    assert run in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says", "hint"),
    [
        (["r-none"], "no run 'r-none'", "latest runs"),
        (["--out", "/proc/none/page.html"], "/proc/none/page.html", "--out"),
    ],
)
def test_errors_say_what_to_do(
    archive: Archive, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str, hint: str
) -> None:
    Writer(archive, 8).write()
    assert main(["report", *arguments]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert hint in err


def test_an_empty_archive_says_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report"]) == 2
    err = capsys.readouterr().err
    assert "no runs" in err
    assert "forewarp optimize" in err


@pytest.mark.parametrize("values", [(1.0, 1.0), (0.98, 1.03), (0.2, 7.0), (1e-3, 4e4), (1e9, 1e15)])
def test_logarithmic_axes_have_a_few_ticks_within_their_ends(values: tuple[float, float]) -> None:
    axis = chart.log_axis("speed-up", values, "×")
    assert 2 <= len(axis.ticks) <= 10
    assert axis.low < min(values) <= max(values) < axis.high
    assert all(axis.low <= v <= axis.high for v, _ in axis.ticks)
    assert len({said for _, said in axis.ticks}) == len(axis.ticks)
    assert all("e+" not in said for _, said in axis.ticks)


@pytest.mark.parametrize("count", [1, 2, 7, 30, 1000])
def test_axes_of_counts_begin_with_one(count: int) -> None:
    axis = chart.count_axis("measurements", count)
    assert axis.ticks[0] == (1.0, "1")
    assert len(axis.ticks) <= 10


def test_numbers_are_short() -> None:
    said: Callable[[float], str] = chart.short
    assert [said(v) for v in (0.0123, 1234.0, 4.2e4, 4.8e12, 2e15)] == ["0.0123", "1,234", "42k", "4.8T", "2P"]
    assert chart.rate(4.8e12, "B/s") == "4.8 TB/s"


def test_shapes_that_nobody_tuned_for_are_told_beside_the_winner(archive: Archive) -> None:
    run = Writer(archive, 96).write()
    best = report(archive, run).best
    assert best is not None
    constants = {"N": 17}
    row = archive.run(run)
    signature = archive.signatures(row.task.sha256, row.target.name)[0]
    right = HoldoutShape("N=17", "square", constants, {"N": (16, 17)}, "ok", signature, "faster", 1.2, 1.1, 1.3)
    wrong = HoldoutShape("N=31", "square", constants, {"N": (16, 31)}, "incorrect", signature, log="7 differ <here>")
    archive.add_holdout(
        run, best.kernel.sha256, serde.to_data(Holdout((right, wrong), "no", 1.0, "It is wrong at N=31."))
    )
    said = " ".join("".join(checked(drawn(archive, run)).text).split())
    assert "It is wrong at N=31." in said
    assert "7 differ <here>" in said
    assert "1.2× [1.1, 1.3]" in said
