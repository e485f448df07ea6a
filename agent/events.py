"""What a conversation says while it goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's text, in order."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """The model calls a tool."""

    call: str
    tool: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """A tool answered. `summary` is for people, `result` is what the model reads."""

    call: str
    tool: str
    summary: str
    result: Mapping[str, Any]
    seconds: float


@dataclass(frozen=True, slots=True)
class Answered:
    """The turn is over. `dollars` is None where the model's price is unknown; `messages` continue the conversation."""

    text: str
    input_tokens: int
    output_tokens: int
    dollars: float | None
    seconds: float
    messages: tuple[Any, ...] = ()


Event = TextDelta | ToolCalled | ToolReturned | Answered
