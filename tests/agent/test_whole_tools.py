"""Whole models and locks in a conversation: by slash commands and by the model's tools, on the CPU device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.scripted_model import scripted
from support.small_model import TEXT

from forewarp.agent.conversation import Conversation
from forewarp.agent.events import ConversationEvent, Failed, Noted, ToolReturned
from forewarp.agent.settings import Settings
from forewarp.tools.parts import Place

pytest.importorskip("torch")


async def said(talk: Conversation, *lines: str) -> list[ConversationEvent]:
    return [event for line in lines for event in [e async for e in talk.say(line)]]


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
