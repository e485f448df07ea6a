"""Messages as they are sent to a model: the latest part whole, older parts without their long texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic_ai.messages import ModelMessage, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart

from forewarp.core.errors import UsageError

Message = TypeVar("Message", bound=ModelMessage)

BLOCK = 16_000
"""Characters after which older texts are left out: the latest one to two blocks are sent whole."""

LONGEST = 400
"""Characters of an argument, or of an entry of a result, that are never left out."""

LEFT_OUT = "characters were left out here"
_KEPT = ("summary", "reason", "error", "hint")

# Each step sends the whole history; most of it are kernels that were written and details of results,
# which tools can return again, so older messages go without them. The boundary moves only now and then, by whole
# blocks: the text before it stays the same from step to step, so that the provider's cache of it stays valid.


def shortened(history: Sequence[ModelMessage], block: int = BLOCK) -> list[ModelMessage]:
    """Return the messages, those before the last full block without the long texts of calls and results."""
    old, full, size = 0, 0, 0
    for number, message in enumerate(history, 1):
        size += length_of([message])
        if size >= block:
            old, full, size = full, number, 0
    return [*(without_long_texts(m) for m in history[:old]), *history[old:]]


def without_long_texts(message: ModelMessage) -> ModelMessage:
    """Return a message without the long texts of its calls and results."""
    return replace(message, parts=[_short(part) for part in message.parts])


def encodable(message: Message) -> Message:
    """Return a message without halves of surrogate pairs: one of them would make every later request fail."""
    parts = [_encodable_part(part) for part in message.parts]
    return (
        replace(message, parts=parts) if any(a is not b for a, b in zip(parts, message.parts, strict=True)) else message
    )


def _encodable_part(part: Any) -> Any:
    names = [name for name in ("content", "args", "tool_name", "tool_call_id") if hasattr(part, name)]
    texts = {name: _encodable(getattr(part, name)) for name in names}
    return part if all(texts[name] == getattr(part, name) for name in names) else replace(part, **texts)


def _encodable(value: Any) -> Any:
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
        case dict():
            return {_encodable(k): _encodable(v) for k, v in value.items()}
        case list():
            return [_encodable(v) for v in value]
        case _:
            return value


def length_of(messages: Iterable[ModelMessage]) -> int:
    return sum(_length(part) for message in messages for part in message.parts)


def refuse_left_out(text: str) -> str:
    """Return a text that the model wrote; raises `UsageError` if it contains a note about text left out."""
    if LEFT_OUT in text:
        raise UsageError(
            "this text holds a note that something was left out of your history",
            hint="read_candidate and read_file have the whole texts",
        )
    return text


def _length(part: Any) -> int:
    match part:
        case ToolCallPart():
            return len(part.args_as_json_str())
        case ToolReturnPart():
            return len(part.model_response_str())
        case UserPromptPart(content=str(text)) | TextPart(content=text):
            return len(text)
        case _:
            return 0


def _short(part: Any) -> Any:
    """Return a part of a message without its long texts; a malformed call, which got an error, stays."""
    if isinstance(part, ToolCallPart) and (arguments := arguments_of(part)) is not None:
        short = _without_long(arguments)
        return part if short == arguments else replace(part, args=short)
    if isinstance(part, ToolReturnPart) and isinstance(part.content, dict):
        return replace(part, content=_without_long(part.content))
    return part


def arguments_of(part: ToolCallPart) -> dict[str, Any] | None:
    """Return a call's arguments; None where the model wrote them malformed."""
    try:
        return part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError, RecursionError, TypeError):  # TypeError for half a surrogate pair
        return None


def _without_long(values: dict[str, Any]) -> dict[str, Any]:
    def noted(value: Any) -> Any:
        length = len(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
        return value if length <= LONGEST else f"({length} {LEFT_OUT})"

    return {name: value if name in _KEPT else noted(value) for name, value in values.items()}
