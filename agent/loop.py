"""One turn of a conversation as a stream of events."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, AgentRunResultEvent
from pydantic_ai import exceptions as failures
from pydantic_ai import messages as said
from pydantic_ai.usage import UsageLimits

from forewarp.agent.events import Answered, Event, TextDelta, ToolCalled, ToolReturned
from forewarp.agent.kit import Kit
from forewarp.core.errors import ModelError, UsageError
from forewarp.prompts.render import render
from forewarp.tools import session
from forewarp.tools.parts import Place

if TYPE_CHECKING:
    from pydantic_ai.models import Model

_PASSING = (
    failures.ModelRateLimitError,
    failures.ModelUnavailableError,
    failures.ModelServerError,
    failures.ModelConnectionError,
    failures.ModelRequestTimeout,
)


async def converse(
    prompt: str,
    model: str | Model,
    *,
    base_url: str | None = None,
    place: Place | None = None,
    folder: Path | None = None,
    history: Sequence[Any] = (),
    max_tokens: int | None = None,
) -> AsyncGenerator[Event]:
    """Answer one prompt with the help of the tools; the last event is `Answered`.

    `history` is `Answered.messages` of the turn before. Files are read below `folder` only. Raises `ModelError` if the
    provider refuses, `UsageError` if the tokens are used up.
    """
    asked = session.make_model(model, base_url)
    if asked is None:
        raise UsageError("a conversation needs a model", hint="pass --model anthropic:NAME or openai:NAME")
    kit = Kit(place or Place(), folder or Path.cwd())
    agent = Agent(asked.model, instructions=render("agent_system.j2", tasks=session.bundled_tasks()), tools=kit.tools())
    began = time.perf_counter()
    calls: dict[str, float] = {}
    try:
        stream = agent.run_stream_events(
            prompt, message_history=list(history), usage_limits=UsageLimits(total_tokens_limit=max_tokens)
        )
        async with stream as events:
            async for event in events:
                if isinstance(event, AgentRunResultEvent):
                    result = event.result
                    cost = asked.cost(time.perf_counter() - began, result.usage)
                    yield Answered(
                        result.output,
                        *(cost.input_tokens, cost.output_tokens, cost.dollars, cost.seconds),
                        tuple(result.all_messages()),
                    )
                elif (shown := _shown(event, calls)) is not None:
                    yield shown
    except failures.UsageLimitExceeded as e:
        raise UsageError(f"the conversation was stopped: {e}", hint="allow more with --max-tokens") from None
    except (failures.AgentRunError, failures.UserError) as e:
        refused = ModelError(f"{asked.label} gave no answer: {e}", hint="check the model's name, key and base URL")
        refused.retryable = isinstance(e, _PASSING)
        raise refused from e
    finally:
        kit.close()


def _shown(event: Any, calls: dict[str, float]) -> Event | None:
    """Return the library's event as ours; None for what nobody needs to see."""
    match event:
        case said.PartStartEvent(part=said.TextPart(content=text)) if text:
            return TextDelta(text)
        case said.PartDeltaEvent(delta=said.TextPartDelta(content_delta=text)) if text:
            return TextDelta(text)
        case said.FunctionToolCallEvent(part=part):
            calls[part.tool_call_id] = time.perf_counter()
            return ToolCalled(part.tool_call_id, part.tool_name, part.args_as_dict())
        case said.FunctionToolResultEvent(part=part):
            seconds = time.perf_counter() - calls.pop(part.tool_call_id, time.perf_counter())
            content: Any = part.content
            result: dict[str, Any] = content if isinstance(content, dict) else {"error": str(content)}
            summary = str(result.get("summary") or result.get("error") or "")
            return ToolReturned(part.tool_call_id, part.tool_name or "", summary, result, seconds)
        case _:
            return None
