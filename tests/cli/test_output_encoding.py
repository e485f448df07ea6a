"""Locales without Unicode: every verb prints something, and JSON stays JSON."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.recorded_run import Writer

import forewarp
from forewarp.archive.store import Archive
from forewarp.cli import streams

SOURCE = str(Path(forewarp.__file__).parents[1])
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}


PROGRAM = """
import json, sys
from forewarp.cli.main import main
for command in json.loads(sys.argv[1]):
    sys.argv[1:] = command
    print(f"\\f{main()}", flush=True)
"""


def run(folder: Path, *commands: list[str]) -> list[tuple[int, bytes]]:
    """Run commands one after another in one process; return the exit code of each and what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands)],
        env=os.environ | ASCII | {"PYTHONPATH": SOURCE},
        cwd=folder,
        capture_output=True,
        check=True,
        timeout=100,
    )
    assert b"Unicode" not in done.stderr, done.stderr
    assert b"this is a bug" not in done.stderr, done.stderr
    assert done.stdout.isascii()
    assert done.stderr.isascii()
    printed = re.findall(rb"(.*?)\f(\d+)\n", done.stdout, re.DOTALL)
    assert len(printed) == len(commands)
    return [(int(code), text) for text, code in printed]


@pytest.fixture
def recorded(tmp_path: Path) -> tuple[Path, str]:
    with Archive(tmp_path / "µ.db") as archive:
        return tmp_path, Writer(archive, 30).write()


def test_verbs_print_in_ascii(recorded: tuple[Path, str]) -> None:
    folder, name = recorded
    commands = [
        *(["--help"], ["tasks"], ["optimize", "--help"]),
        *(
            ["runs", "--archive", "µ.db"],
            ["show", name, "--archive", "µ.db"],
            ["archive", "check", "--archive", "µ.db"],
        ),
        ["report", name, "--archive", "µ.db", "--out", "seite-×.html"],
    ]
    *shown, (unknown, _) = run(folder, *commands, ["show", "r-×"])
    for arguments, (code, text) in zip(commands, shown, strict=True):
        assert (code, text != b"") == (0, True), arguments
    assert "×" in (folder / "seite-×.html").read_text(encoding="utf-8")
    assert unknown == 2


def test_json_is_the_same_in_ascii(recorded: tuple[Path, str]) -> None:
    folder, name = recorded
    commands = (["show", name, "--json"], ["runs", "--json"], ["show", "r-×", "--json"])
    for arguments, (_, text) in zip(commands, run(folder, *([*c, "--archive", "µ.db"] for c in commands)), strict=True):
        told = json.loads(text)
        assert ("×" in json.dumps(told, ensure_ascii=False)) == (b"\\u00d7" in text)
        if arguments[0] == "show":
            assert b"\\u00d7" in text


def test_what_cannot_be_shown_has_a_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    raw, other = io.BytesIO(), io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(other, encoding="ascii"))
    streams.survive_any_text(["runs", "--json"])
    text = "1.5× – é 🚀 \udcff ─"
    print(json.dumps(text, ensure_ascii=False), flush=True)
    print(text, file=sys.stderr, flush=True)
    assert json.loads(raw.getvalue()) == text
    assert other.getvalue() == b"1.5x - \\u00e9 \\ud83d\\ude80 \\udcff -\n"
