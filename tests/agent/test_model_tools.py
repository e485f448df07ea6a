"""Answers of the agent's tools about a task and its candidates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from support.boards import forecast, measured
from support.scripted_model import Call, scripted

from forewarp.agent.conversation import Conversation
from forewarp.agent.events import ToolReturned
from forewarp.agent.instructions import instructions
from forewarp.agent.settings import Settings
from forewarp.tools.parts import Place

PROBLEM = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, scale):
        return torch.relu(x) * scale


def get_inputs():
    return [torch.rand(6, 4), 0.5]


def get_init_inputs():
    return []
"""


def opened(folder: Path, *calls: Call) -> Conversation:
    place = Place(device="cpu", archive=str(folder / "archive.db"))
    return Conversation(Settings(place, folder, scripted(*calls), approval="never"))


async def result_of(talk: Conversation) -> dict[str, Any]:
    [found] = [dict(e.result) async for e in talk.say("Go on.") if isinstance(e, ToolReturned)]
    return found


async def test_a_kernelbench_file_is_described_with_its_inputs_and_a_kernel_to_begin_with(tmp_path: Path) -> None:
    (tmp_path / "problem.py").write_text(PROBLEM)
    talk = opened(tmp_path, ("describe_task", {"task": "problem.py"}))
    try:
        found = await result_of(talk)
    finally:
        talk.close()
    assert found["summary"] == "problem"
    assert found["interface"]["inputs"] == ["x: float32[6, 4]", "scale: 0.5"]
    assert found["interface"]["outputs"] == ["out: float32[6, 4]"]
    assert "const float* x, float* out, float scale" in found["start"]["source"]
    assert "shapes" not in found or all(found["shapes"].values())


async def test_earlier_measurements_of_a_candidate_stay_in_the_list(tmp_path: Path) -> None:
    talk = opened(tmp_path, ("list_candidates", {}))
    first = replace(forecast(1), median=1.0, low=0.5, high=2.0)
    for event in (first, measured(first, 1, 22.3), measured(first, 1, 28.0)):
        talk.candidates.apply(event)
    found = await result_of(talk)
    assert found["summary"].startswith("1 candidate; ")
    [row] = found["candidates"]
    assert row["measured"].startswith("28")
    assert [text.partition(" ")[0] for text in row["measured_before"]] == ["22.3×"]


def test_the_instructions_say_what_a_module_is(tmp_path: Path) -> None:
    for device in ("cpu", "cuda:99"):
        text = instructions(Settings(Place(device=device, archive=str(tmp_path / "a.db")), tmp_path))
        assert "class ModelNew(nn.Module)" in text
