"""`forewarp -p` in its three formats: what is on stdout, what on stderr, and the exit code."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelServerError
from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import AgentInfo, FunctionModel
from support.recorded_pool import Recorded, record
from support.scripted_model import Call, endless, scripted

from forewarp.agent import model_turn
from forewarp.agent.conversation import Conversation
from forewarp.agent.settings import Settings
from forewarp.agent.transcript import conversations
from forewarp.cli import headless
from forewarp.cli.main import main
from forewarp.cli.options import Output, OutputFormat
from forewarp.report import documents
from forewarp.tools.parts import Amounts, Place

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record(tmp_path_factory.mktemp("pool"))


@pytest.fixture
def folder(recorded: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a task and its kernels in it."""
    found = tmp_path / "work"
    found.mkdir()
    for path in (recorded.task, recorded.seed, recorded.broken):
        copy(path, found)
    monkeypatch.chdir(found)
    return found


@pytest.fixture
def run(folder: Path, recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on the recorded pool; returns exit code, stdout and stderr."""

    def call(*arguments: str, flags: bool = True) -> tuple[int, str, str]:
        code = main([*arguments, *(recorded.flags if flags else ())])
        out, err = capsys.readouterr()
        return code, out, err

    return call


@pytest.fixture
def talk(folder: Path, recorded: Recorded) -> Callable[..., Conversation]:
    """Make a conversation with a scripted model."""

    def made(model: Any, **values: Any) -> Conversation:
        place = Place(device="replay", pool=recorded.pool)
        chosen: dict[str, Any] = {"approval": "never", **values}
        return Conversation(Settings(place=place, folder=folder, model=model, **chosen))

    return made


def document(out: str) -> dict[str, Any]:
    """The one document on stdout, checked against its schema."""
    assert out.count("\n") == 1, out
    found = json.loads(out)
    kind = "chat" if "events" in found else "conversations" if "conversations" in found else "error"
    documents.DOCUMENTS[kind].model_validate(found)
    assert (found["type"], found["command"], bool(found["summary"])) == ("result", "chat", True)
    return found


def test_a_slash_command_prints_what_it_found_and_how_on_stderr(run: Run) -> None:
    code, out, err = run("-p", "/forecast toy.py toy.cpp")
    assert code == 0
    assert "broad prior" in out
    assert "→ forecast_kernel(task='toy.py', kernels='toy.cpp')" in err
    assert run("chat", "--prompt", "/forecast toy.py toy.cpp", "-q") == (0, out, "")


def test_json_is_one_document_with_all_events(run: Run) -> None:
    code, out, _ = run("-p", "/measure toy.py toy.cpp", "--json", "--budget", "3")
    found = document(out)
    assert (code, found["status"], found["error"]) == (0, "ok", None)
    assert found["best"]["provenance"] == "replay"
    assert found["best"]["text"].startswith("/*forewarp")
    assert (found["budget"]["spent"]["measurements"], found["budget"]["limit"]["measurements"]) == (1, 3)
    assert [e["type"] for e in found["events"]][:2] == ["UserSaid", "ToolCalled"]
    assert found["events"][-1]["type"] == "Answered"


def test_a_stream_is_one_event_per_line_and_the_document_last(run: Run) -> None:
    code, out, _ = run("-p", "/forecast toy.py toy.cpp", "--output-format", "stream-json")
    *events, last = map(json.loads, out.splitlines())
    assert code == 0
    assert {"UserSaid", "ToolCalled", "CandidateForecast", "ToolReturned", "Answered"} <= {e["type"] for e in events}
    assert document(json.dumps(last) + "\n")["events"] == []


@pytest.mark.parametrize(
    ("arguments", "exit_code", "says"),
    [
        ((), 2, '-p "…"'),
        (("-p", "hello"), 2, "--model"),
        (("-p", ""), 2, "stdin"),
        (("-p", "/forcast x"), 2, "/forecast"),
        (("-p", "/measure toy.py gone.cpp"), 2, "below the working folder"),
        (("-p", "/runs", "--approve", "each"), 2, "--approve never"),
        (("-p", "/runs", "--continue"), 2, "--resume lists"),
        (("-p", "/runs", "--resume", "nobody"), 2, "lists"),
        (("-p", "/runs", "-c", "--resume", "x"), 2, "leave one"),
        (("-p", "/runs", "--replay", "x.jsonl"), 2, "leave -p or --replay out"),
        (("--replay", "gone.jsonl"), 2, "lists"),
        (("-p", "hi", "--base-url", "http://127.0.0.1:9/v1"), 2, "--model"),
        (("-p", "hi", "--model", "nobody:x"), 2, "openai:NAME"),
        (("-p", "hi", "--budgte", "3"), 2, "--help"),
        (("-p", "/search", "softmax"), 2, "put a text with spaces into quotes"),
        (("-p", "!ls"), 2, "--shell"),
    ],
)
def test_errors_have_codes_hints_and_documents(run: Run, arguments: tuple[str, ...], exit_code: int, says: str) -> None:
    code, out, err = run(*arguments, flags=False)
    assert (code, out) == (exit_code, "")
    assert says in err
    assert "Traceback" not in err
    for form in (["--json"], ["--output-format", "json"], ["--output-format=stream-json"]):
        code, out, err = run(*arguments, *form, flags=False)
        found = document(out.splitlines()[-1] + "\n")
        assert (code, found["status"]) == (exit_code, "error")
        assert found["error"]["message"] in err
        assert "stream" in form[-1] or out.count("\n") == 1


def test_two_formats_at_once_are_refused(run: Run) -> None:
    code, out, _ = run("-p", "/runs", "--json", "--output-format", "text")
    assert (code, document(out)["error"]["code"]) == (2, "usage")


def test_a_second_turn_goes_on_with_the_first(run: Run) -> None:
    run("-p", "/measure toy.py toy.cpp")
    code, out, _ = run("-c", "-p", "/candidates", "--json")
    found = document(out)
    assert code == 0
    assert "| 1 | " in found["summary"]
    assert found["best"]["number"] == found["budget"]["spent"]["measurements"] == 1
    assert document(run("--resume", found["conversation"][:-2], "-p", "/best", "--json")[1])["status"] == "ok"
    assert len(conversations(Place())) == 1


def test_conversations_are_listed(run: Run) -> None:
    assert "No conversation" in run("--resume", flags=False)[1]
    run("-p", "/task")
    code, out, _ = run("--resume", flags=False)
    assert code == 0
    assert "/task" in out
    listed = document(run("--resume", "--json", flags=False)[1])["conversations"]
    assert [line["title"] for line in listed] == ["/task"]


def test_a_replay_says_that_it_is_one_in_every_format(run: Run) -> None:
    _, first, _ = run("-p", "/measure toy.py toy.cpp")
    path = conversations(Place())[0].path
    code, out, err = run("--replay", path, flags=False)
    assert (code, out) == (0, first)
    assert "no model was asked" in err
    found = document(run("--replay", path, "--json", flags=False)[1])
    assert found["replay"]
    assert found["summary"].startswith("This is a replay")
    _, out, _ = run("--replay", path, "--output-format", "stream-json", flags=False)
    assert all(json.loads(line)["replay"] for line in out.splitlines())
    assert len(conversations(Place())) == 1


def test_the_models_answer_is_all_that_is_on_stdout(
    talk: Callable[..., Conversation], capsys: pytest.CaptureFixture[str]
) -> None:
    call: Call = ("forecast_kernel", {"task": "toy.py", "path": "toy.cpp"})
    model = scripted(call, answer=lambda _: "It is fast.")
    assert headless.run(talk(model), ["Make toy faster."], "text", Output()) == 0
    out, err = capsys.readouterr()
    assert out.split() == ["It", "is", "fast."]
    assert "→ forecast_kernel" in err
    assert "price unknown" in err


def test_the_document_counts_tokens_and_holds_the_answer(
    talk: Callable[..., Conversation], capsys: pytest.CaptureFixture[str]
) -> None:
    assert headless.run(talk(scripted(answer=lambda _: "Yes.")), ["Is it?"], "json", Output(json=True)) == 0
    found = document(capsys.readouterr().out)
    assert found["summary"] == "Yes."
    assert found["output_tokens"] > 0
    assert found["dollars"] is None
    assert found["best"] is None


def test_nobody_is_asked_and_the_budget_ends_it(
    talk: Callable[..., Conversation], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write: Call = ("write_file", {"path": "toy.py", "text": "gone"})
    measure: Call = ("measure_kernel", {"task": "toy.py", "path": "toy.cpp"})
    conversation = talk(scripted(write, measure), budget=Amounts(measurements=0))
    assert headless.run(conversation, ["Go on."], "text", Output()) == 0
    err = capsys.readouterr().err
    assert "? overwrite toy.py" in err
    assert "nobody can be asked" in err
    assert "Not measured: the budget of 0 measurements" in err
    assert "class Model" in (folder / "toy.py").read_text()


def test_advice_names_flags_where_no_slash_command_can_follow(
    talk: Callable[..., Conversation], capsys: pytest.CaptureFixture[str]
) -> None:
    look: Call = ("list_files", {"pattern": "*.py"})
    for values, flag in (({"steps": 1}, "`--max-steps N`"), ({"budget": Amounts(tokens=1)}, "`--max-tokens`")):
        assert headless.run(talk(scripted(look, look), **values), ["Go on."], "text", Output()) == 2
        err = capsys.readouterr().err
        assert flag in err
        assert "/budget" not in err


def test_a_provider_that_is_overloaded_may_be_asked_again(
    talk: Callable[..., Conversation], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(model_turn, "FIRST_WAIT_S", 0.01)

    async def refuse(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        raise ModelServerError("scripted", "overloaded")
        yield ""

    assert headless.run(talk(FunctionModel(stream_function=refuse)), ["Hello"], "json", Output(json=True)) == 75
    out, err = capsys.readouterr()
    assert document(out)["error"]["retryable"]
    assert "overloaded" in err


@pytest.mark.parametrize("shape", ["text", "json"])
def test_an_interrupt_prints_what_there_is(
    talk: Callable[..., Conversation], capsys: pytest.CaptureFixture[str], shape: OutputFormat
) -> None:
    class Said(asyncio.Event):
        def set(self) -> None:
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    assert headless.run(talk(endless(Said())), ["Think."], shape, Output()) == 130
    assert signal.getsignal(signal.SIGINT) is before
    out, err = capsys.readouterr()
    assert "I think that" in out
    assert "interrupted" in err
    if shape == "json":
        found = document(out)
        assert (found["status"], found["summary"]) == ("interrupted", "I think that")


@pytest.mark.parametrize(("prompt", "said"), [("Why?", "Why?\n\nerror: x"), ("-", "error: x"), ("/runs", "/runs")])
def test_what_is_piped_in_follows_the_prompt(monkeypatch: pytest.MonkeyPatch, prompt: str, said: str) -> None:
    read, write = os.pipe()
    os.write(write, b"error: x\n")
    os.close(write)
    with os.fdopen(read) as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        assert headless.with_input(prompt) == said


def test_what_is_not_needed_is_not_imported(folder: Path) -> None:
    code = (
        "import sys; from forewarp.cli.main import main; main(['-p', '/help']);"
        "print([m for m in ('pydantic_ai', 'textual', 'sklearn', 'torch') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_help_shows_the_options_of_the_terminal_and_the_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--help"])
    out = capsys.readouterr().out
    assert all(word in out for word in ("--prompt", "--replay", "--no-mouse", "optimize", "evaluate"))


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [[], ["--resume"], ["chat", "--no-mouse", "--theme", "light"]])
def test_on_a_terminal_it_opens_and_quit_leaves_it(folder: Path, arguments: list[str]) -> None:
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    command = [sys.executable, "-m", "forewarp.cli.main", *arguments]
    opened = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen, asked = b"", False
    deadline = time.monotonic() + 60
    try:
        while opened.poll() is None and time.monotonic() < deadline:
            if select.select([ours], [], [], 0.2)[0]:
                with suppress(OSError):  # the other end was closed
                    seen += os.read(ours, 65536)
            if not asked and b"/command" in seen:
                os.write(ours, b"/quit\r")
                asked = True
        assert opened.wait(10) == 0, seen[-2000:]
    finally:
        opened.kill()
        os.close(ours)
    assert asked


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b2J\u202e\b"


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["text", "json", "stream-json"])
def test_what_a_model_and_its_tools_say_does_nothing_to_a_terminal(
    talk: Callable[..., Conversation], folder: Path, capsys: pytest.CaptureFixture[str], shape: Any
) -> None:
    (folder / f"evil{HOSTILE}.cpp").write_text(f"#error {HOSTILE}")
    calls: list[Call] = [
        ("forecast_kernel", {"task": "toy.py", "path": f"evil{HOSTILE}.cpp"}),
        ("read_file", {"path": f"missing{HOSTILE}"}),
        ("list_files", {"pattern": f"*{HOSTILE}*"}),
        (f"no_tool{HOSTILE}", {"path": HOSTILE}),
        ("write_file", {"path": f".hidden{HOSTILE}\nIt is safe.", "text": HOSTILE}),
    ]
    conversation = talk(scripted(*calls, answer=lambda _: f"Done {HOSTILE} [red]x[/]"))
    headless.run(conversation, [f"Go on {HOSTILE}"], shape, Output(json=shape == "json"))
    out, err = capsys.readouterr()
    for text in (out, err):
        assert not [c for c in text if not c.isprintable() and c != "\n"], ascii(text)
    if shape == "text":
        assert "Done ]0;owned[2J2J [red]x[/]" in out
        assert "? write .hidden\ufffd]0;owned" in err
        assert not [line for line in err.splitlines() if line.startswith("It is safe.")]
    else:
        documents = [json.loads(line) for line in out.splitlines()]
        assert HOSTILE in documents[-1]["summary"]


def test_a_dash_reads_stdin_alone_and_the_demo_needs_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("/demo\n"))
    assert main(["-p", "-", "--archive", str(tmp_path / "demo.db")]) == 0
    out, err = capsys.readouterr()
    assert "were measured on an H200 and looked up" in out
    assert "(replay)" in err


def test_dollars_that_cannot_be_counted_are_refused_before_anything_is_asked(run: Run) -> None:
    code, out, err = run(
        "-p", "Hello", "--model", "openai:mine", "--base-url", "http://models.example/v1", "--max-usd", "1"
    )
    assert (code, out) == (2, "")
    assert "price of openai:mine@models.example is unknown" in err
    assert "FOREWARP_PRICES" in err
