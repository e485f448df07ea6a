"""`forewarp chat -p`: one turn with the agent, without a terminal interface."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from forewarp.cli.options import HERE, NO_MODEL, PLAIN, Model, Output, Positive, Where

if TYPE_CHECKING:
    from forewarp.agent.events import Event


def chat(
    *,
    prompt: Annotated[str, Parameter(name=["--prompt", "-p"])],
    max_tokens: Annotated[int | None, Parameter(validator=Positive)] = None,
    model: Model = NO_MODEL,
    where: Where = HERE,
    output: Output = PLAIN,
) -> int:
    """Let a language model forecast, measure and search for you; its text goes to stdout, its tool calls to stderr.

    Args:
        prompt: What you want.
        max_tokens: Most tokens of the whole conversation.
        model: The language model; needed.
        where: Device and archive.
        output: How results are shown.
    """
    from forewarp.agent.events import Answered
    from forewarp.agent.loop import converse
    from forewarp.cli import exits
    from forewarp.cli.documents import ChatDocument
    from forewarp.core import serde
    from forewarp.core.errors import UsageError

    if model.model is None:
        raise UsageError("a conversation needs a model", hint="pass --model anthropic:NAME or openai:NAME")
    asked = converse(
        prompt, model.model, base_url=model.base_url, place=where.place(), folder=Path.cwd(), max_tokens=max_tokens
    )

    async def turn() -> list[Event]:
        seen: list[Event] = []
        async for event in asked:
            seen.append(event)
            show(event, output)
        return seen

    seen = asyncio.run(turn())
    last = seen[-1]
    if output.json and isinstance(last, Answered):
        document = ChatDocument(
            command="chat",
            status="ok",
            summary=last.text,
            input_tokens=last.input_tokens,
            output_tokens=last.output_tokens,
            dollars=last.dollars,
            seconds=last.seconds,
            events=[{"type": type(e).__name__, **serde.to_data(e)} for e in seen[:-1]],
        )
        print(document.model_dump_json())
    return exits.OK


def show(event: Event, output: Output) -> None:
    """Print an event as it comes."""
    from forewarp.agent.events import Answered, TextDelta, ToolCalled, ToolReturned

    match event:
        case TextDelta(text=text) if not output.json:
            print(text, end="", flush=True)
        case ToolCalled(tool=tool, arguments=arguments) if not output.quiet:
            short = ", ".join(f"{k}={str(v)[:60]!r}" for k, v in arguments.items())
            print(f"→ {tool}({short})", file=sys.stderr)
        case ToolReturned(summary=summary, seconds=seconds) if not output.quiet:
            print(f"← {summary} ({seconds:.1f} s)", file=sys.stderr)
        case Answered() if not output.json:
            print()
            if not output.quiet:
                price = "price unknown" if event.dollars is None else f"${event.dollars:.4f}"
                print(f"{event.input_tokens} + {event.output_tokens} tokens, {price}", file=sys.stderr)
        case _:
            pass
