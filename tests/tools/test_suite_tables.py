from __future__ import annotations

import csv
import io

import pytest

from forewarp.tools.parts import Device
from forewarp.tools.suite_results import SuiteResult, SuiteRow, view
from forewarp.tools.suite_tables import as_csv, as_markdown


def result(**fields: str) -> SuiteResult:
    row = SuiteRow.model_validate({"problem": "p", "kernel": "k", "status": "incorrect"} | fields)
    scores = view([[row]], ["eager"])
    return SuiteResult(
        summary="s",
        status="finished",
        device=Device(name="d", kind="cpu", arch="x"),
        versions={},
        baselines=["eager"],
        problems=1,
        kernels=1,
        best=scores,
        per_sample=scores,
        statuses={},
        verdicts={},
        rows=[row],
        compiled=[],
        unmatched=[],
        output="out",
        seconds=0.0,
    )


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\x1b=1", " =1"])
def test_no_cell_is_a_formula(text: str) -> None:
    _, cells = csv.reader(
        io.StringIO(
            as_csv(
                result(kernel=text, log=text),
            )
        )
    )
    for cell in cells:
        assert not cell.strip().startswith(("=", "+", "-", "@"))
        assert "\x1b" not in cell
    assert cells[1].startswith("'")


def test_cells_with_commas_quotes_and_lines_stay_one_cell() -> None:
    header, cells = csv.reader(io.StringIO(as_csv(result(kernel='a,"b"'))))
    assert len(header) == len(cells)
    assert cells[1] == 'a,"b"'


def test_markdown_shows_text_as_it_is() -> None:
    shown = as_markdown(result(kernel="a|b <img src=x> [l](u) `c`\x1b[2J\nd"))
    assert "a\\|b &lt;img src=x> \\[l](u) \\`c\\`\\[2J d" in shown
