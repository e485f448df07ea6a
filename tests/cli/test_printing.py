"""The border between text of others and the terminal, as bytes."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from rich.panel import Panel
from rich.style import Style
from rich.table import Table
from rich.text import Text

from forewarp.cli import printing
from forewarp.cli.main import main
from forewarp.cli.streams import LogStream
from forewarp.core.errors import UsageError
from forewarp.report import display

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202e\b\r[red]x[/] [link=http://evil]y[/link]"
CLEAN = "]0;owned[2J2J[red]x[/] [link=http://evil]y[/link]"


def on_terminal(code: str) -> str:
    """What reaches a terminal of 100 columns when Python runs this code with `HOSTILE` in it."""
    imports = "from forewarp.cli import printing\nfrom forewarp.report import display\nfrom rich.text import Text"
    here = f"HOSTILE = {HOSTILE!r}\n{imports}\n{code}"
    primary, secondary = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(
        [sys.executable, "-c", here], stdin=secondary, stdout=secondary, stderr=secondary, env=env
    )
    os.close(secondary)
    read = b""
    with suppress(OSError):  # Linux raises at the end of a terminal
        while more := os.read(primary, 65536):
            read += more
    os.close(primary)
    assert process.wait(60) == 0, read
    return read.decode()


def acts(shown: str) -> bool:
    """Whether the terminal would do what the hostile text says."""
    return any(part in shown for part in ("\x1b]0", "\x1b[2J", "\x1b]8", "\x9b", "\u202e", "\b", "\x07"))


@pytest.mark.parametrize(
    "code",
    [
        "display.stdout().print(HOSTILE, style='red')",
        "display.stderr().print(Text(HOSTILE))",
        "display.stdout().print(f'{HOSTILE}', soft_wrap=True)",
        "from rich.table import Table; t = Table(HOSTILE); t.add_row(HOSTILE); display.stdout().print(t)",
        "from rich.table import Table; t = Table('a'); t.add_row(Text(HOSTILE)); display.stdout().print(t)",
        "from rich.panel import Panel; display.stdout().print(Panel(Text(HOSTILE), title=Text(HOSTILE)))",
        "printing.out(HOSTILE)",
        "printing.out(HOSTILE, end='')",
        "printing.err(HOSTILE)",
        "printing.trace(ValueError(HOSTILE))",
        "printing.json_line({'log': HOSTILE})",
        "from forewarp.report import progress\n"
        "with progress.redrawn(display.stderr(), lambda: Text(HOSTILE)) as live: live.refresh()",
        "import time\nwith display.waiting(display.stderr(), HOSTILE) as tell: tell(HOSTILE); time.sleep(0.3)",
    ],
)
def test_hostile_text_does_nothing_to_a_terminal(code: str) -> None:
    shown = on_terminal(code)
    assert not acts(shown), ascii(shown)
    assert "[red]x" in shown  # neither markup nor lost
    assert "evil" in shown


COMMANDS = ("::error::x", "  ::set-output name=a::b", "a ##[error]x", "##vso[task.setvariable variable=a]b")


def test_no_line_is_a_command_to_continuous_integration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    plan = '/*forewarp\nfunction = "f"\ninputs = ["x"]\noutputs = ["y"]\nargs = ["x", "y"]\n*/\n'
    (tmp_path / "bad.cpp").write_text(plan + "\n".join(f"#warning {text}\n{text}" for text in COMMANDS))
    raised = f"    raise RuntimeError({os.linesep.join(('', *COMMANDS))!r})\n"
    (tmp_path / "p.py").write_text(
        f"import torch\nclass Model(torch.nn.Module):\n  def forward(self, x):\n{raised}"
        "def get_inputs(): return [torch.randn(8)]\ndef get_init_inputs(): return []\n"
    )
    verbs = [
        ["measure", "softmax", "bad.cpp", "--device", "cpu", "--json"],
        ["validate", "p.py", "--device", "cpu"],
        ["show", "\n::error::x\n##[error]y"],
        ["-p", "/task \n::error::x"],
    ]
    for stream in ("stdout", "stderr"):  # which `main` replaces
        monkeypatch.setattr(sys, stream, getattr(sys, stream))
    for verb in verbs:
        main(verb)
    said = capsys.readouterr()
    lines = (said.out + said.err).splitlines()
    assert [line for line in lines if line.strip().startswith("::") or re.search(r"##\w*\[", line)] == []
    assert any(": :error::x" in line for line in lines)
    document = next(json.loads(line) for line in said.out.splitlines() if line.startswith("{"))
    assert "##[error]x" in json.dumps(document)


@pytest.mark.parametrize(
    "parts", [("::error::x\n",), (":", ":error::x"), ("\n ", ":", ":x"), ("##", "[x]"), ("#", "#vso[")]
)
def test_commands_are_broken_however_a_line_is_written(parts: Sequence[str]) -> None:
    plain = io.StringIO()
    stream = LogStream(plain, json=False)
    for part in parts:
        stream.write(part)
    written = plain.getvalue()
    assert written.replace(" ", "") == "".join(parts).replace(" ", "")
    assert not written.strip().startswith("::")
    assert not re.search(r"##\w*\[", written)


def test_a_table_is_as_wide_as_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("a", "b")
    table.add_row(HOSTILE, "1")
    table.add_row("x", "2")
    display.stdout().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert len({len(line) for line in lines}) == 1
    assert CLEAN in lines[3]


def test_no_style_makes_a_link(capsys: pytest.CaptureFixture[str]) -> None:
    console = display.SafeConsole(force_terminal=True, markup=False)
    console.print(Panel(Text("here", style=Style(link="http://evil", bold=True))))
    out = capsys.readouterr().out
    assert "\x1b]8" not in out
    assert "\x1b[1m" in out


def test_documents_stay_json_that_means_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    class Result(BaseModel):
        log: str

    for text in (HOSTILE, "not UTF-8 \udcff"):
        printing.document(Result(log=text))
        out = capsys.readouterr().out
        assert json.loads(out) == {"log": text}
        assert out.removesuffix("\n").isprintable()


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", HOSTILE],
        ["measure", f"no{HOSTILE}.py", "k.cpp"],
        ["measure", "softmax", "--tunable", HOSTILE],
        [f"verb{HOSTILE}"],
        ["optimize", "softmax", f"--{HOSTILE}", "1"],
        ["suite", "a", "b", "--baselines", HOSTILE],
        ["-p", f"/{HOSTILE}"],
        ["-p", "/forecast softmax", "--device", HOSTILE],
        ["inspect", "softmax", f"no{HOSTILE}.cpp", "-v"],
    ],
)
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_errors_that_echo_what_was_given_are_harmless(
    arguments: list[str], more: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREWARP_ARCHIVE", str(tmp_path / "archive.db"))
    assert main([*arguments, *more]) != 0
    out, err = capsys.readouterr()
    assert err
    assert not acts(out + err), ascii(out + err)
    if more and arguments[0] != f"verb{HOSTILE}":
        assert json.loads(out)


def test_a_traceback_and_an_error_of_ours_are_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    from forewarp.cli import exits

    for error in (UsageError(HOSTILE, hint=HOSTILE), ValueError(HOSTILE)):
        exits.failed(error, ["-v"])
    err = capsys.readouterr().err
    assert not acts(err)
    assert err.count("]0;owned") >= 4


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("numpy", "raise RuntimeError('I am not numpy')", "I am not numpy"),
        ("numpy", "no_number = 1", "'numpy' is not a package"),
        ("typing", "raise RuntimeError('I am not typing')", "I am not typing"),
    ],
)
def test_a_module_on_pythonpath_that_fails_is_not_called_a_bug_of_ours(
    tmp_path: Path, name: str, text: str, shown: str
) -> None:
    (tmp_path / f"{name}.py").write_text(text + "\n")
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", "from forewarp.cli.entry import run; run()", "tasks"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), source))},
        capture_output=True,
        text=True,
        timeout=100,
    )
    said = " ".join(done.stderr.split())
    assert shown in said
    assert re.search(rf"{tmp_path / name}.py'?, which PYTHONPATH puts before", said)
    assert "this is a bug" not in said
    assert "Traceback" not in said


def test_names_stay_whole_on_a_narrow_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console = display.SafeConsole(width=40, markup=False)
    console.print(display.table(["run", *"abcde"], [["r-123456", *["some more words"] * 5]], whole=1))
    out = capsys.readouterr().out
    assert "r-123456" in out
    assert max(map(len, out.splitlines())) <= 40
