"""Reading, searching, editing and undoing: exact, bounded, with the user's word, and never stuck."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.scripted_model import Call, at_once, scripted

from forewarp.agent.conversation import Conversation
from forewarp.agent.events import Answered, ApprovalAsked, ApprovalReply, ConversationEvent, Failed, Noted, ToolReturned
from forewarp.agent.file_tools import MAX_READ, replaced
from forewarp.agent.settings import Settings
from forewarp.core.errors import UsageError
from forewarp.tools.parts import Place

KERNEL = "int a = 1;\nint b = 2;\nint c = 3;\n"
Make = Callable[..., Conversation]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "work"
    found.mkdir()
    (found / "mine.cpp").write_text(KERNEL)
    return found


@pytest.fixture
def talk(folder: Path, tmp_path: Path) -> Make:
    def made(*calls: Call, **values: Any) -> Conversation:
        place = Place(device="cpu", archive=str(tmp_path / "archive.db"))
        return Conversation(Settings(place, folder, scripted(*calls), approval="never", **values))

    return made


async def turn(talk: Conversation, text: str = "Go on.", reply: ApprovalReply = "yes") -> list[ConversationEvent]:
    seen: list[ConversationEvent] = []
    async with asyncio.timeout(60):
        async for event in talk.say(text):
            seen.append(event)
            if isinstance(event, ApprovalAsked):
                talk.answer(event.call, reply)
    return seen


def results(events: list[ConversationEvent]) -> list[dict[str, Any]]:
    return [dict(e.result) for e in events if isinstance(e, ToolReturned)]


async def test_an_edit_of_the_users_file_is_asked_for_with_its_difference_and_can_be_undone(
    talk: Make, folder: Path
) -> None:
    edit: Call = ("edit_file", {"path": "mine.cpp", "old": "int b = 2;", "new": "int b = 4;"})
    refused = await turn(talk(edit), reply="no")
    [question] = [e for e in refused if isinstance(e, ApprovalAsked)]
    assert "-int b = 2;\n+int b = 4;" in question.text
    assert (question.command, question.once) == ("edit mine.cpp", True)
    assert (folder / "mine.cpp").read_text() == KERNEL
    again: Call = ("edit_file", {"path": "mine.cpp", "old": "int c", "new": "long c"})
    one = talk(edit, again)
    events = await turn(one)
    assert sum(isinstance(e, ApprovalAsked) for e in events) == 2
    assert (folder / "mine.cpp").read_text() == KERNEL.replace("2", "4").replace("int c", "long c")
    said = [e.text for e in [*await turn(one, "/undo"), *await turn(one, "/undo")] if isinstance(e, Noted)]
    assert said == ["`mine.cpp` is as it was before."] * 2
    assert (folder / "mine.cpp").read_text() == KERNEL
    assert isinstance((await turn(one, "/undo"))[-1], Failed)


async def test_what_changed_since_is_not_undone(talk: Make, folder: Path) -> None:
    one = talk(("write_file", {"path": "new.cpp", "text": "int x;\n"}))
    await turn(one)
    (folder / "new.cpp").write_text("int y;\n")
    end = (await turn(one, "/undo"))[-1]
    assert isinstance(end, Failed)
    assert "changed since" in end.message
    (folder / "new.cpp").write_text("int x;\n")
    assert isinstance((await turn(one, "/undo"))[-1], Answered)
    assert not (folder / "new.cpp").exists()


async def test_a_file_that_changes_while_the_question_stands_is_not_written(talk: Make, folder: Path) -> None:
    one = talk(("edit_file", {"path": "mine.cpp", "old": "int b = 2;", "new": ""}))
    async for event in one.say("Go"):
        if isinstance(event, ApprovalAsked):
            (folder / "mine.cpp").write_text("int mine;\n")
            one.answer(event.call, "yes")
    assert (folder / "mine.cpp").read_text() == "int mine;\n"


def test_only_the_one_place_is_replaced() -> None:
    assert replaced("a\r\nb\r\nc", "a\nb", "x\ny", "f") == "x\r\ny\r\nc"
    with pytest.raises(UsageError, match="2 times"):
        replaced("x = 1\nx = 1\n", "x = 1", "x = 2", "f")
    with pytest.raises(UsageError) as e:
        replaced("  int  b;\n", "int b;", "", "f")
    assert "line 1 is alike: '  int  b;'" in e.value.hint


async def test_lines_are_found_and_read_in_parts(talk: Make, folder: Path) -> None:
    (folder / ".env").write_text("int secret;\n")
    (folder / "long.txt").write_text("".join(f"line {n} {'x' * 90}\n" for n in range(1, 2001)))
    calls: list[Call] = [
        ("grep", {"text": "INT B|int c"}),
        ("read_file", {"path": "long.txt", "line": 1990}),
        ("read_file", {"path": "long.txt"}),
        ("read_file", {"path": "long.txt", "line": 9999}),
    ]
    found, end, start, beyond = results(await turn(talk(*calls)))
    assert found["lines"] == ["mine.cpp:2: int b = 2;", "mine.cpp:3: int c = 3;"]
    assert end["summary"] == "lines 1990 to 2000 of long.txt"
    assert len(start["text"]) <= MAX_READ
    line = int(start["summary"].rpartition("line=")[2])
    assert start["text"].endswith(f"line {line - 1} {'x' * 90}\n")
    assert beyond["summary"] == "no line of long.txt from 9999 on"


async def test_nothing_waits_for_a_pipe_and_nothing_large_is_read_whole(talk: Make, folder: Path) -> None:
    os.mkfifo(folder / "pipe.py")
    (folder / "large.py").write_bytes(b"x = 1\n" * (60 << 20 >> 3))
    (folder / "binary.py").write_bytes(bytes(range(256)) * 100)
    (folder / "one_line.txt").write_text("x" * 5_000_000)
    paths = ["pipe.py", "large.py", "binary.py", "one_line.txt"]
    calls: list[Call] = [("read_file", {"path": p}) for p in paths]
    calls += [("edit_file", {"path": p, "old": "x", "new": "y"}) for p in paths]
    calls += [("write_file", {"path": "pipe.py", "text": "x"}), ("grep", {"text": "x = 1"})]
    calls += [("search", {"task": p}) for p in paths[:3]] + [("tune", {"path": p}) for p in paths[:3]]
    calls += [("inspect_kernel", {"task": "softmax", "path": p}) for p in paths[:3]]
    calls += [("forecast_kernel", {"task": "softmax", "path": p}) for p in paths[:3]]
    calls += [("describe_task", {"task": p}) for p in paths[:3]]
    found = results(await turn(talk(*calls)))
    assert len(found) == len(calls)
    assert "no file" in found[0]["error"]
    assert found[1]["summary"].endswith(f"go on with line={MAX_READ // 6 + 1}")
    assert "no text" in found[2]["error"]
    assert len(found[3]["text"]) < 30_000
    assert all("error" in f or f.get("status") != "ok" for f in found[4:9])
    for text in (
        "/forecast softmax pipe.py",
        "/inspect softmax pipe.py",
        "/check softmax pipe.py",
        "/tune pipe.py",
        "@pipe.py",
    ):
        assert isinstance((await turn(talk(), text))[-1], Failed)


async def test_a_command_is_confined_and_asked_for_each_time(talk: Make, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("secret")
    lines = ["cat mine.cpp | wc -l > count", "cat ../outside.txt", "echo x > ../made", "sleep 60", "yes"]
    calls: list[Call] = [("run_command", {"command": line, "seconds": 2}) for line in lines]
    refused = await turn(talk(calls[0]), reply="no")
    [question] = [e for e in refused if isinstance(e, ApprovalAsked)]
    assert question.command == f"run: {lines[0]}"
    assert question.once
    assert "no network" in question.reason
    assert not (folder / "count").exists()
    many = "cat mine.cpp\nrm mine.cpp"
    refused = await turn(talk(("run_command", {"command": many})), reply="no")
    assert [e.text for e in refused if isinstance(e, ApprovalAsked)] == [many]
    events = await turn(talk(*calls))
    assert sum(isinstance(e, ApprovalAsked) for e in events) == len(lines)
    counted, outside, made, slept, endless = results(events)
    assert (counted["summary"], (folder / "count").read_text().strip()) == ("exit status 0", "3")
    assert "secret" not in outside["output"]
    assert not (tmp_path / "made").exists()
    assert re.search("Permission denied|nonexistent|No such file|Read-only", made["output"])
    assert "longer than 2 s" in slept["summary"]
    assert "printed more than" in endless["summary"]


async def test_nothing_of_a_command_goes_on_after_it(talk: Make, folder: Path) -> None:
    """It was allowed once; later it could change files under the hands of other tools, and disturb measurements."""
    lines = [
        "setsid sh -c 'sleep 1; touch later' > out 2>&1 &",
        "(trap '' HUP TERM; sleep 1; touch later) > out 2>&1 &",
    ]
    calls: list[Call] = [("run_command", {"command": line}) for line in lines]
    assert [r["summary"] for r in results(await turn(talk(*calls)))] == ["exit status 0"] * 2
    await asyncio.sleep(1.5)
    assert not (folder / "later").exists()


async def test_two_edits_of_one_step_on_one_file_take_turns(folder: Path, tmp_path: Path) -> None:
    edits: list[Call] = [
        ("edit_file", {"path": "mine.cpp", "old": f"int {name}", "new": f"long {name}"}) for name in "ab"
    ]
    place = Place(device="cpu", archive=str(tmp_path / "archive.db"))
    events = await turn(Conversation(Settings(place, folder, at_once(*edits), approval="never")))
    assert [r["summary"] for r in results(events)] == ["edited mine.cpp: 1 line in place of 1"] * 2
    assert (folder / "mine.cpp").read_text() == KERNEL.replace("int a", "long a").replace("int b", "long b")
    first, second = [e.text for e in events if isinstance(e, ApprovalAsked)]
    assert "+long a" in first
    assert " long a" in second


async def test_what_the_system_refuses_is_no_fault_of_forewarp(talk: Make, folder: Path) -> None:
    (folder / "file").write_text("x\n")
    calls: list[Call] = [
        ("write_file", {"path": "file/below.cpp", "text": "x"}),
        ("write_file", {"path": f"{'long' * 100}.cpp", "text": "x"}),
    ]
    events = await turn(talk(*calls))
    assert isinstance(events[-1], Answered)
    below, long = (r["error"] for r in results(events))
    assert below == "file/below.cpp was not written: File exists"
    assert long.endswith("File name too long")
