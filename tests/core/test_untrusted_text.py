from __future__ import annotations

import csv
import io
import json

import pytest

from forewarp.core.untrusted_text import escaped_json, first_error, one_line, printable, spreadsheet_cell

HOSTILE = {
    "title": "\x1b]0;owned\x07",
    "clear": "\x1b[2J",
    "link": "\x1b]8;;http://evil\x1b\\here\x1b]8;;\x1b\\",
    "c1": "\x9b2J",
    "delete": "\x7f",
    "backspace": "safe\b\b\b\bevil",
    "return": "safe\revil",
    "override": "\u202etxt.exe",
    "isolate": "\u2066x\u2069",
    "marks": "\u200e\u200f\u061c",
    "no characters of XML": "a\ufffe\uffffb",
    "invisible": "a\u200b\u2060\ufeff\u00adb",
    "tags": "a\U000e0041b",
    "lines": "a\u2028b\u2029c\x85d",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_is_left_that_a_terminal_acts_upon(text: str) -> None:
    assert all(c.isprintable() for c in printable(text))
    assert all(c.isprintable() or c == "\ufffd" for c in printable(text, "\ufffd"))
    assert printable(text) != text
    assert "\ufffd" in printable(text, "\ufffd")


def test_what_people_write_stays() -> None:
    text = "def f(x):\n\treturn x × 2  # für 日本 🧑\u200d💻 نمی\u200cخواهم\u00a0→"
    assert printable(text) == text


def test_bytes_that_are_no_text_are_marked_and_can_be_encoded() -> None:
    assert printable("a\udcffb").encode() == "a\ufffdb".encode()


def test_the_error_of_a_traceback_is_not_its_code() -> None:
    log = 'Traceback (most recent call last):\n  File "a.py", line 1\n    raise ValueError(error)\nValueError: no GPU'
    assert first_error(log) == "ValueError: no GPU"
    unnamed = 'Traceback (most recent call last):\n  File "a.py", line 1\n    run(error)\nNoCompiler: g++\n\nSet CXX'
    assert first_error(unnamed) == "NoCompiler: g++"
    assert first_error("built\n  a.cu(3): error: no such name") == "a.cu(3): error: no such name"


def test_a_line_is_one_line() -> None:
    assert one_line(" a\n\x1b[2Jb\t c ") == "a [2Jb c"


@pytest.mark.parametrize("begins", ["=", "+", "-", "@", "\t=", "\r=", "\n=", " =", "\x1b=", "\u202e=", "＝"])
def test_no_cell_is_a_formula(begins: str) -> None:
    cell = spreadsheet_cell(f"{begins}HYPERLINK(1)")
    assert cell.startswith("'")
    assert cell.endswith("HYPERLINK(1)")
    assert spreadsheet_cell("a=b") == "a=b"


@pytest.mark.parametrize("between", [";", '";', "|", "\n", "\t", "; \t", '"'])
@pytest.mark.parametrize("split_at", ",;|\t")
def test_no_cell_is_a_formula_whatever_a_spreadsheet_splits_at(between: str, split_at: str) -> None:
    text = io.StringIO()
    csv.writer(text).writerow(["kernel", spreadsheet_cell(f"x{between}=1+1"), "end"])
    rows = csv.reader(io.StringIO(text.getvalue(), newline=""), delimiter=split_at)
    assert not [cell for row in rows for cell in row if cell.lstrip(' "').startswith("=")]


@pytest.mark.parametrize("text", [*HOSTILE.values(), "\udcff", "plain ü 日本"])
def test_json_means_the_same_and_is_printable(text: str) -> None:
    document = json.dumps({"log": text, text: 1}, ensure_ascii=False)
    escaped = escaped_json(document)
    assert json.loads(escaped) == {"log": text, text: 1}
    assert escaped.isprintable()
    assert escaped.splitlines() == [escaped]
