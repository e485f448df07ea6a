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


RUN = ["--archive", "µ.db"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[str, ...], tuple[int, bytes]]]:
    """A folder with the archive of a run, and what commands on it print: in one process, as starting takes longest."""
    folder = tmp_path_factory.mktemp("ascii")
    with Archive(folder / "µ.db") as archive:
        name = Writer(archive, 30).write()
    commands = {
        ("--help",): ["--help"],
        ("tasks",): ["tasks"],
        ("optimize", "--help"): ["optimize", "--help"],
        ("runs",): ["runs", *RUN],
        ("show",): ["show", name, *RUN],
        ("archive", "check"): ["archive", "check", *RUN],
        ("report",): ["report", name, *RUN, "--out", "seite-×.html"],
        ("show", "r-×"): ["show", "r-×"],
        ("show", "--json"): ["show", name, "--json", *RUN],
        ("runs", "--json"): ["runs", "--json", *RUN],
        ("show", "r-×", "--json"): ["show", "r-×", "--json", *RUN],
    }
    return folder, dict(zip(commands, run(folder, *commands.values()), strict=True))


def test_verbs_print_in_ascii(recorded: tuple[Path, dict[tuple[str, ...], tuple[int, bytes]]]) -> None:
    folder, printed = recorded
    for arguments, (code, text) in printed.items():
        if "--json" not in arguments and "r-×" not in arguments:
            assert (code, text != b"") == (0, True), arguments
    assert "×" in (folder / "seite-×.html").read_text(encoding="utf-8")
    assert printed["show", "r-×"][0] == 2


def test_json_is_the_same_in_ascii(recorded: tuple[Path, dict[tuple[str, ...], tuple[int, bytes]]]) -> None:
    in_json = {arguments: text for arguments, (_, text) in recorded[1].items() if "--json" in arguments}
    assert len(in_json) == 3
    for arguments, text in in_json.items():
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
