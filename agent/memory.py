"""History that is sent to the model: everything said and found, without the long texts of old calls.

Each step sends the whole history. Most of it is kernels that were written and details of results, which tools can
return again. So they are left out of older messages. The boundary moves on only now and then, by whole blocks: the text
before it stays the same from step to step, so that the provider's cache of it stays valid.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai import messages as said
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models import ModelRequestContext

from forewarp.core.errors import UsageError

BLOCK = 16_000
"""Characters after which older texts are left out: the latest one to two blocks are sent whole."""

LONGEST = 400
"""Characters of an argument, or of an entry of a result, that are never left out."""

LEFT_OUT = "characters were left out here"
_KEPT = ("summary", "reason", "error", "hint")


class Shortened(AbstractCapability[Any]):
    """Sends the model a shortened history; the remembered and recorded history stays whole."""

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Shorten the messages that this request sends."""
        return replace(request_context, messages=shortened(request_context.messages))


def shortened(messages: Sequence[said.ModelMessage]) -> list[said.ModelMessage]:
    """Return the messages, the older ones without the long texts of calls and results."""
    old = _old(messages)
    return [*map(_short, messages[:old]), *messages[old:]]


def refuse_left_out(text: str) -> str:
    """Return a text that the model wrote; raises `UsageError` if it contains a note about text left out."""
    if LEFT_OUT in text:
        raise UsageError(
            "this text holds a note that something was left out of your history",
            hint="read_candidate and read_file have the whole texts",
        )
    return text


def _old(messages: Sequence[said.ModelMessage]) -> int:
    """Return how many messages lie before the last block that is full."""
    before, full, size = 0, 0, 0
    for number, message in enumerate(messages, 1):
        size += _size(message)
        if size >= BLOCK:
            before, full, size = full, number, 0
    return before


def _size(message: said.ModelMessage) -> int:
    size = 0
    for part in message.parts:
        if isinstance(part, said.ToolCallPart):
            size += len(part.args_as_json_str())
        elif isinstance(part, said.ToolReturnPart):
            size += len(part.model_response_str())
        elif isinstance(part, said.UserPromptPart | said.TextPart) and isinstance(part.content, str):
            size += len(part.content)
    return size


def _short(message: said.ModelMessage) -> said.ModelMessage:
    if isinstance(message, said.ModelRequest):
        returned = [_short_return(p) if isinstance(p, said.ToolReturnPart) else p for p in message.parts]
        return replace(message, parts=returned)
    return replace(message, parts=[_short_call(p) if isinstance(p, said.ToolCallPart) else p for p in message.parts])


def _short_call(part: said.ToolCallPart) -> said.ToolCallPart:
    try:
        given = part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return part  # malformed, so it was answered with an error
    short = _without_long(given)
    return part if short == given else replace(part, args=short)


def _short_return(part: said.ToolReturnPart) -> said.ToolReturnPart:
    content: Any = part.content
    return replace(part, content=_without_long(content)) if isinstance(content, dict) else part


def _without_long(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value if name in _KEPT else _noted(value) for name, value in values.items()}


def _noted(value: Any) -> Any:
    length = len(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
    return value if length <= LONGEST else f"({length} {LEFT_OUT})"
