"""A shorter memory in place of a long one: older messages become a summary, the latest ones stay as they are.

The model writes the summary piece by piece, so that each request fits into its context. Where it cannot, an outline of
what was said and found takes the summary's place: no conversation ends because its memory could not be summarised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RunUsage

from forewarp.agent.edits import difference
from forewarp.agent.events import ConversationEvent, Retrying
from forewarp.agent.history import arguments_of, length_of, without_long_texts
from forewarp.agent.model_turn import CHARACTERS_PER_TOKEN, ModelTurn
from forewarp.core.errors import ModelError
from forewarp.core.untrusted_text import clip
from forewarp.prompts.render import render

if TYPE_CHECKING:
    from forewarp.tools.session import LanguageModel

SUMMARY_WORDS = 600
WORDS_OF_CONTEXT = 50
"""Tokens of context for each word of a summary, at most `SUMMARY_WORDS`."""

KEPT, PIECE = 0.25, 0.4
"""Parts of the model's room: for the latest messages, which stay, and for a piece of older ones to summarise."""

LONGEST_PROMPT, LONGEST_ANSWER, LONGEST_CALL = 4000, 1500, 300
"""Characters of a prompt, an answer, and a call in what is summarised; its result, or an edit, has three times that."""

SUMMED_UP = "What happened so far, summed up:\n\n"
LATEST = "\n\nThe user's latest words, which you work on:\n\n"
GOES_ON = "I go on from there."


@dataclass(frozen=True, slots=True)
class ShorterMemory:
    """Summary, and messages to go on from. `why_outline` says why it is only an outline, "" where it is not."""

    summary: str
    messages: list[ModelMessage]
    usage: RunUsage
    why_outline: str = ""


async def summarised(
    model: LanguageModel,
    history: Sequence[ModelMessage],
    room: int,
    emit: Callable[[ConversationEvent], None],
    *,
    keep: bool,
    needed: bool,
    turn: Callable[[ModelTurn | None], None] = lambda _: None,
) -> ShorterMemory | None:
    """Return the memory to go on with, in `room` tokens; None if the user stopped it.

    With `keep`, the latest messages stay as they are. An outline is made in place of a summary only where one is
    `needed`; otherwise raises `ModelError` where the provider refuses. `turn` gets what can be stopped.
    """
    characters = int(room * CHARACTERS_PER_TOKEN)
    cut = _cut(history, int(characters * KEPT)) if keep else len(history)
    old, most = history[:cut], characters * KEPT
    kept = [without_long_texts(m) if length_of([m]) > most else m for m in history[cut:]]
    lines = [line for message in old for line in told_lines(message)]
    asking = ModelTurn(model, "", [], lambda event: emit(event) if isinstance(event, Retrying) else None)
    summary, why = "", ""
    turn(asking)
    try:
        for piece in _pieces(lines, int(characters * PIECE)):
            words = min(SUMMARY_WORDS, max(100, room // WORDS_OF_CONTEXT))
            prompt = render("agent_compact.j2", words=words, before=summary, piece=piece)
            answer = await asking.run([ModelRequest([UserPromptPart(prompt)])])
            if answer is None:
                return None
            summary = clip(answer.strip(), int(characters * KEPT))
    except ModelError as e:
        if not needed:
            raise
        summary, why = _outline(lines, int(characters * KEPT)), e.message
    finally:
        turn(None)
    latest = _latest_prompt(old) if not any(map(_is_prompt, kept)) else ""
    told = f"{SUMMED_UP}{summary}{LATEST + latest if latest else ''}"
    between: list[ModelMessage] = (
        [] if kept and isinstance(kept[0], ModelResponse) else [ModelResponse([TextPart(GOES_ON)])]
    )
    return ShorterMemory(summary, [ModelRequest([UserPromptPart(told)]), *between, *kept], asking.usage, why)


def _cut(history: Sequence[ModelMessage], characters: int) -> int:
    """Return how many of the messages are old: calls stay with their results, and a last request stays."""
    cut, left = len(history), characters
    for number in range(len(history) - 1, -1, -1):
        left -= length_of([history[number]])
        if left < 0 and cut < len(history):
            break
        if isinstance(history[number], ModelResponse) or _is_prompt(history[number]):
            cut = number
    return cut


def _is_prompt(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and any(isinstance(p, UserPromptPart) for p in message.parts)


def _latest_prompt(old: Sequence[ModelMessage]) -> str:
    """Return the user's last words; of a summary, those that stand at its end."""
    for message in reversed(old):
        for part in message.parts:
            if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                text = part.content
                return clip(text.partition(LATEST)[2] if text.startswith(SUMMED_UP) else text, LONGEST_PROMPT)
    return ""


def told_lines(message: ModelMessage) -> list[str]:
    """Return a message as lines for a reader: who said or called what, and what came of it."""
    lines: list[str] = []
    for part in message.parts:
        match part:
            case UserPromptPart(content=str(text)) if text.startswith(SUMMED_UP):
                lines += text.removeprefix(SUMMED_UP).partition(LATEST)[0].splitlines()
            case UserPromptPart(content=str(text)):
                lines.append(f"User: {clip(text, LONGEST_PROMPT)}")
            case TextPart(content=text) if text.strip():
                lines.append(f"You: {clip(text, LONGEST_ANSWER)}")
            case ToolCallPart():
                lines.append(f"You called {part.tool_name}: {_call_in_short(part)}")
            case ToolReturnPart():
                content = part.content
                told = (
                    str(content.get("summary") or content.get("error")) if isinstance(content, dict) else str(content)
                )
                lines.append(f"{part.tool_name} returned: {clip(told, 3 * LONGEST_CALL)}")
            case _:
                pass
    return lines


def _call_in_short(part: ToolCallPart) -> str:
    """Return a call's arguments; of an edit, the lines that it changed."""
    match part.tool_name, arguments_of(part):
        case "edit_file", {"path": str(path), "old": str(old), "new": str(new)}:
            return clip(difference(old, new, path), 3 * LONGEST_CALL)
        case _, given:
            return clip(str(given or part.args), LONGEST_CALL)


def _pieces(lines: Sequence[str], characters: int) -> list[str]:
    """Return the lines in pieces of at most so many characters; a longer line is a piece of its own."""
    pieces: list[str] = []
    for line in lines:
        if pieces and len(pieces[-1]) + len(line) < characters:
            pieces[-1] += f"\n{line}"
        else:
            pieces.append(line)
    return pieces


def _outline(lines: Sequence[str], characters: int) -> str:
    """Return the beginnings of the lines, the latest ones where not all fit."""
    short = [clip(line, LONGEST_CALL) for line in lines]
    while len(short) > 1 and sum(map(len, short)) > characters:
        del short[len(short) // 2]  # the first words of the user say what the conversation is about
    return "\n".join(short)
