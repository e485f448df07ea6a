"""Whole models and locks in a conversation: by slash commands and by the model's tools, on the CPU device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.scripted_model import scripted
from support.small_model import TEXT

from forewarp.agent.conversation import Conversation
from forewarp.agent.events import ApprovalAsked, ConversationEvent, Failed, Noted, ToolReturned
from forewarp.agent.settings import Settings
from forewarp.gpu_runner.formats import task as tasks
from forewarp.tools.parts import Place

pytest.importorskip("torch")


async def said(talk: Conversation, *lines: str, answer: str = "yes") -> list[ConversationEvent]:
    """Say lines, answer what is asked, and return the events."""
    events: list[ConversationEvent] = []
    for line in lines:
        async for event in talk.say(line):
            events.append(event)
            if isinstance(event, ApprovalAsked):
                talk.answer(event.call, "no" if answer == "no" else "yes")
    return events


@pytest.mark.slow
async def test_a_model_is_profiled_by_its_user_and_by_the_model(tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text(TEXT)
    (tmp_path / "gate.json").write_text(json.dumps({"kernels": []}))
    outside = {"path": "../x.py", "tunables": {}, "language": "python", "sha256": "0", "task": None}
    (tmp_path / "outside.json").write_text(json.dumps({"kernels": [outside]}))
    place = Place(device="cpu", archive=str(tmp_path / "archive.db"))
    model = scripted(("profile_model", {"path": "small.py", "line": 1}))
    talk = Conversation(Settings(place, tmp_path, model, approval="never"))
    try:
        events = await said(talk, "/profile small.py", "/gate gate.json", "/gate outside.json", "Go on.")
    finally:
        talk.close()
    table, gate = [e.text for e in events if isinstance(e, Noted)][:2]
    assert "| line | operations |" in table
    assert "layer_norm" in table
    assert "| kernel | verdict | why |" in gate
    assert any(isinstance(e, Failed) for e in events)  # the lock names a file outside of the folder
    found = [e for e in events if isinstance(e, ToolReturned)]
    assert found[-1].tool == "profile_model"
    assert found[-1].result["task"] == "small_line1.py"
    assert "SUBGRAPH" in (tmp_path / "small_line1.py").read_text()


@pytest.mark.slow
async def test_kernels_are_locked_and_checked_and_a_python_is_started_with_the_users_word_only(tmp_path: Path) -> None:
    seed = next(s for s in tasks.load("softmax").seeds if s.language == "cpp")
    (tmp_path / "mine.cpp").write_text(seed.source)
    place = Place(device="cpu", archive=str(tmp_path / "archive.db"))
    model = scripted(
        ("gate_lock", {"kernels": ["mine.cpp"], "task": "softmax", "lock": "gate.json"}),
        ("gate_check", {"lock": "gate.json", "python": ["/no/python"]}),
    )
    talk = Conversation(Settings(place, tmp_path, model, approval="never"))
    try:
        events = await said(talk, "Go on.", answer="no")
        told = await said(talk, "/gate gate.json", "/lock mine.cpp --task softmax")
    finally:
        talk.close()
    locked, checked = [e.result for e in events if isinstance(e, ToolReturned)]
    assert locked["summary"].startswith("1 of 1 kernel locked in gate.json")  # with times on a quiet machine only
    [kernel] = json.loads((tmp_path / "gate.json").read_text())["kernels"]
    assert (kernel["path"], kernel["task"]) == ("mine.cpp", "softmax")
    [asked] = [e for e in events if isinstance(e, ApprovalAsked)]
    assert (asked.command, asked.once) == ("start /no/python", True)
    assert "the user said no" in checked["error"]
    assert talk.spent.measurements > 1  # a busy machine may give one of them no time
    assert any("| mine.cpp |" in e.text for e in told if isinstance(e, Noted))
    assert (tmp_path / "forewarp-kernels.lock.json").exists()
    assert not list(tmp_path.glob(".*.json"))
