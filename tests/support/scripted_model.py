"""Models that follow a script: the calls that they make, and what they say then."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping

from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

Call = tuple[str, Mapping[str, object]]


def scripted(*calls: Call, answer: Callable[[list[ModelMessage]], str] = lambda _: "Done.") -> FunctionModel:
    """A model that makes these calls in each turn, one after the other, then answers: word by word where streamed."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        made = len(returns(messages))
        if made < len(calls):
            tool, arguments = calls[made]
            yield {0: DeltaToolCall(name=tool, json_args=json.dumps(arguments), tool_call_id=f"call{made}")}
            return
        for word in answer(messages).split(" "):
            yield word + " "

    def whole(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=[TextPart(answer(messages))])

    return FunctionModel(whole, stream_function=stream)


def at_once(*calls: Call) -> FunctionModel:
    """A model that makes all these calls in one step, then answers."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        if returns(messages):
            yield "Done."
            return
        for number, (tool, arguments) in enumerate(calls):
            yield {number: DeltaToolCall(name=tool, json_args=json.dumps(arguments), tool_call_id=f"call{number}")}

    return FunctionModel(stream_function=stream)


def endless(said: asyncio.Event) -> FunctionModel:
    """A model that begins to speak, sets `said`, and never ends."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "I think that "
        said.set()
        await asyncio.Event().wait()

    return FunctionModel(stream_function=stream)


def returns(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    """The answers of tools that a model was given, in order."""
    return [p for m in messages if isinstance(m, ModelRequest) for p in m.parts if isinstance(p, ToolReturnPart)]
