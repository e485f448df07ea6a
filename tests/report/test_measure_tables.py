"""Measurements as people see them: tables that fit 100 columns, the winner in lists and in the report."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from support import synthetic_executor as synthetic
from support.full_measurement import full_measurement

from forewarp.archive.store import Archive, default_path
from forewarp.cli.doctor import doctor
from forewarp.cli.main import main
from forewarp.cli.options import Output, PlaceOptions
from forewarp.core.budget import Budget
from forewarp.core.protocols import Subject
from forewarp.core.values import UNTRUSTED, Build, Candidate, Measurement, Task
from forewarp.report import display
from forewarp.report.documents import SearchDocument
from forewarp.report.html.run import page
from forewarp.report.measure_tables import render, render_many
from forewarp.search.loop import Search
from forewarp.search.proposers.tunables import TunablesProposer
from forewarp.search.settings import SearchSettings
from forewarp.tools.measure_kernel import KernelResult, MeasureManyResult
from forewarp.tools.measured import MeasureResult, result_of
from forewarp.tools.run_report import RunRecord, report


def shown(m: Measurement) -> MeasureResult:
    return result_of("toy", synthetic.TARGET, synthetic.seed(), Build("ok", 0.1), m, 7)


def console() -> Console:
    return Console(width=100, record=True, markup=False, highlight=False, file=open(os.devnull, "w"))


def text_of(printed: Console) -> list[str]:
    printed.file.close()
    return printed.export_text().splitlines()


def test_a_measurement_fits_a_hundred_columns() -> None:
    printed = console()
    render(shown(full_measurement()), printed)
    lines = text_of(printed)
    assert max(map(len, lines)) <= 100
    rows = [line for line in lines if line.startswith(" w")]
    assert len(rows) == 4
    assert all("1.25× [1.22, 1.28]" in row and "faster" in row for row in rows)
    assert sum(line.startswith("noise floor (reference against itself): w0 ±1 %") for line in lines) == 1
    assert sum(line.startswith("warm L2: w0 1.4× [1.39, 1.41]") for line in lines) == 1
    assert any("61 °C (52 before)" in line and "slowed by power cap" in line for line in lines)
    assert "against it: candidate's clock differs" in lines
    assert not any("in cycles" in line or "no network" in line for line in lines)


def test_verbose_shows_everything() -> None:
    printed = console()
    render(shown(full_measurement()), printed, full=True)
    text = "\n".join(text_of(printed))
    for part in ("with launch", "1.24× [1.21, 1.27]", "graph", "200", "bit-identical", "no network", "a remark"):
        assert part in text


@pytest.mark.parametrize("verdict", UNTRUSTED)
def test_an_untrusted_number_comes_with_its_log(verdict: str) -> None:
    printed = console()
    render(shown(replace(full_measurement(), verdict=verdict)), printed)  # type: ignore[arg-type]
    assert "a remark" in text_of(printed)
    assert display.colour(verdict) == "magenta"


def test_several_kernels_are_one_table() -> None:
    failed = Measurement("crashed", "failed", "synthetic-1", "T0", log="signal 11\nmore")
    attempts = [
        KernelResult(path="/somewhere/fast.cpp", result=shown(full_measurement())),
        KernelResult(path="crash.cpp", result=shown(failed)),
        KernelResult(path="gone.cpp", result=None, problem="gone.cpp cannot be read"),
    ]
    printed = console()
    render_many(MeasureManyResult(summary="1 of 3", kernels=attempts), printed)
    lines = text_of(printed)
    assert [line.split()[0] for line in lines] == ["kernel", "fast.cpp", "crash.cpp", "gone.cpp", "1"]
    assert "±1 %" in lines[1]
    assert "signal 11" in lines[2]
    assert "not measured" in lines[3]


class Thorough(synthetic.SyntheticExecutor):
    """Measures as a GPU does, with all fields; what is at the top of the landscape is too good to be true."""

    def measure(
        self,
        task: Task,
        candidate: Candidate,
        build: Build,
        against: Subject | None = None,
        beat: float | None = None,
    ) -> Measurement:
        m = super().measure(task, candidate, build, against, beat)
        if m.status != "ok":
            return m
        verdict = "impossible" if (m.speedup or 0) > 3.0 else m.verdict
        return replace(full_measurement(), verdict=verdict, speedup=m.speedup, low=m.low, high=m.high)


@pytest.fixture
def document() -> SearchDocument:
    with Archive(default_path()) as archive:
        settings = SearchSettings(budget=Budget(measurements=6), confirm=False)
        forecaster = synthetic.KnowingForecaster(0.05)
        executor = Thorough()
        search = Search.start(archive, synthetic.task(), executor, TunablesProposer(), forecaster, settings)
        for _ in search.events():
            pass
        return SearchDocument(command="show", **dict(report(archive, search.run_id)))


def test_lists_and_reports_show_how_far_to_trust_the_winner(
    document: SearchDocument, capsys: pytest.CaptureFixture[str]
) -> None:
    with Archive(default_path()) as archive:
        html = page(document, RunRecord.read(archive, document.run_id))
    best = document.best
    assert best is not None
    assert any(c.measured and c.measured.verdict == "impossible" for c in document.candidates)
    assert best.speedup.ratio < 3.0
    for part in (
        "<td class=faster>faster",
        "<td class=odd>impossible",
        "±1 %",
        "slowed by power cap",
        "bit-identical",
    ):
        assert part in html
    assert main(["show", document.run_id]) == 0
    out = capsys.readouterr().out
    assert "noise floor (reference against itself)" in out
    assert "device: 61 °C" in out
    assert main(["runs"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if document.run_id in line)
    assert f"{best.speedup}" in row
    assert "±1 %" in row


def test_doctor_takes_a_python_that_is_not_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    exit_code = doctor(where=PlaceOptions(python=tmp_path / "python"), output=Output(quiet=True))
    assert exit_code == 69
    assert "Nothing can be measured here without torch" in capsys.readouterr().out
