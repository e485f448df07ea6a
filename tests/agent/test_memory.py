"""Long conversations: summarised in pieces that fit, whatever the model's context, and usable where that fails."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic_ai.exceptions import ModelContextWindowExceededError, ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from forewarp.agent.conversation import Conversation
from forewarp.agent.events import Answered, Compacted, ConversationEvent, Failed, Noted, Spent
from forewarp.agent.history import length_of
from forewarp.agent.memory import told_lines
from forewarp.agent.model_turn import MOST_CHARACTERS
from forewarp.agent.settings import Settings
from forewarp.agent.tui.items import Items
from forewarp.agent.tui.status import activity
from forewarp.tools.parts import Place

CONTEXT, PER_TOKEN = 32_768, 3
"""The context in tokens, and the characters that a strict provider counts as one."""


class Reader:
    """A model with a small context: it reads one long file after the other, and sums up when asked to."""

    def __init__(self, steps: int, *, sums_up: bool = True, strict: bool = False) -> None:
        self.steps, self.sums_up, self.window, self.strict = steps, sums_up, CONTEXT, strict
        self.made = 0
        self.lengths: list[int] = []
        self.summaries: list[str] = []
        self.last: list[ModelMessage] = []
        self.model = FunctionModel(stream_function=self._stream)

    async def _stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        length = length_of(messages) + len(info.instructions or "")
        self.lengths.append(length)
        if self.strict and length / PER_TOKEN > self.window:
            raise ModelContextWindowExceededError("small", f"maximum context length is {self.window} tokens")
        if not info.function_tools:
            if not self.sums_up:
                raise ModelHTTPError(400, "small", {"error": {"message": "no summaries today"}})
            self.summaries.append(str(messages[-1].parts[-1].content))  # type: ignore[union-attr]
            yield f"Summary {len(self.summaries)}: toy is slow."
            return
        self.last = list(messages)
        self.made += 1
        if self.made % self.steps == 0:
            yield f"Done after {self.made}."
            return
        yield "I think of tiles, and of what it costs to load them. " * 120
        arguments = json.dumps({"path": f"f{self.made}.txt"})
        yield {0: DeltaToolCall(name="read_file", json_args=arguments, tool_call_id=f"c{self.made}")}


def opened(tmp_path: Path, reader: Reader, **values: Any) -> Conversation:
    for number in range(60):
        (tmp_path / f"f{number}.txt").write_text(f"{number} " + "some words\n" * 900)
    place = Place(device="cpu", archive=str(tmp_path / "a.db"))
    return Conversation(Settings(place, tmp_path, reader.model, approval="never", **values))


async def test_the_status_says_that_a_conversation_is_summarised(tmp_path: Path) -> None:
    talk = opened(tmp_path, Reader(55), context=CONTEXT)
    said: set[str] = set()
    async for event in talk.say("Read all files of toy, please."):
        if isinstance(event, Spent):
            said.add(activity(Items(), asking=False, summarising=talk.summarising))
    assert said == {"working", "summarising the conversation"}


async def turn(talk: Conversation, text: str) -> list[ConversationEvent]:
    return [event async for event in talk.say(text)]


def matched(messages: list[ModelMessage]) -> bool:
    """Whether each result has its call before it, and requests and answers alternate."""
    calls = {p.tool_call_id for m in messages for p in m.parts if isinstance(p, ToolCallPart)}
    alternate = all(type(a) is not type(b) for a, b in pairwise(messages))
    returns = {p.tool_call_id for m in messages for p in m.parts if isinstance(p, ToolReturnPart)}
    return returns <= calls and alternate and isinstance(messages[0], ModelRequest)


async def test_a_model_with_a_small_context_works_through_a_long_turn(tmp_path: Path) -> None:
    reader = Reader(55)
    talk = opened(tmp_path, reader, context=CONTEXT)
    events = await turn(talk, "Read all files of toy, please.")
    assert isinstance(events[-1], Answered)
    compacted = [e for e in events if isinstance(e, Compacted)]
    assert len(compacted) >= 2
    assert max(reader.lengths) / MOST_CHARACTERS < 0.75 * CONTEXT
    assert min(b / a for a, b in pairwise(reader.lengths)) < 0.5
    assert "Read all files of toy, please." in str(reader.last[0].parts[0].content)  # type: ignore[union-attr]
    assert "toy is slow" in str(reader.last[0].parts[0].content)  # type: ignore[union-attr]
    assert "toy is slow" in reader.summaries[-1]
    assert matched(reader.last)
    assert isinstance((await turn(talk, "And now?"))[-1], Answered)
    assert isinstance(reader.last[0].parts[0], UserPromptPart)


async def test_an_answer_that_the_conversation_is_too_long_has_it_summarised(tmp_path: Path) -> None:
    reader = Reader(30, strict=True)
    talk = opened(tmp_path, reader)
    assert talk.room > CONTEXT
    events = await turn(talk, "Read all files.")
    assert isinstance(events[-1], Answered)
    assert any(isinstance(e, Compacted) for e in events)
    assert talk.settings.context == CONTEXT


async def test_where_no_summary_is_to_be_had_an_outline_takes_its_place(tmp_path: Path) -> None:
    reader = Reader(30, sums_up=False)
    talk = opened(tmp_path, reader, context=CONTEXT)
    events = await turn(talk, "Read all files of toy, please.")
    assert isinstance(events[-1], Answered)
    assert any("no summaries today" in e.text for e in events if isinstance(e, Noted))
    assert "Read all files of toy, please." in str(reader.last[0].parts[0].content)  # type: ignore[union-attr]
    count = talk.message_count
    end = (await turn(talk, "/compact"))[-1]
    assert isinstance(end, Failed)
    assert "no summaries today" in end.message
    assert talk.message_count == count
    assert isinstance((await turn(talk, "And now?"))[-1], Answered)


async def test_a_prompt_that_no_summary_makes_short_enough_ends_with_a_sentence(tmp_path: Path) -> None:
    reader = Reader(30)
    talk = opened(tmp_path, reader, context=CONTEXT)
    end = (await turn(talk, "x " * 60_000))[-1]
    assert isinstance(end, Failed)
    assert "no room" in end.message
    assert isinstance((await turn(talk, "And now?"))[-1], Answered)


def test_a_summary_is_made_from_the_lines_that_an_edit_changed() -> None:
    around = "".join(f"line {n} stays as it is\n" for n in range(40))
    edit = {"path": "toy.py", "old": f"{around}x = 1\n{around}", "new": f"{around}x = 2\n{around}"}
    [line] = told_lines(ModelResponse([ToolCallPart("edit_file", edit)]))
    assert line.startswith("You called edit_file: --- toy.py")
    assert "-x = 1\n+x = 2" in line
    assert len(line) < 1000


async def test_what_was_summed_up_before_is_summed_up_once_more_as_it_stands(tmp_path: Path) -> None:
    reader = Reader(60, sums_up=False)
    events = await turn(opened(tmp_path, reader, context=CONTEXT), "Read all files of toy, please.")
    assert sum(isinstance(e, Compacted) for e in events) > 1
    told = str(reader.last[0].parts[0].content)  # type: ignore[union-attr]
    assert told.count("summed up") == 1
    assert told.count("Read all files of toy, please.") == 2  # in the outline, and as the words to work on
