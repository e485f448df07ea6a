"""One turn of the model: its text, its tool calls and what it cost, from the library's stream to ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, AgentRunResultEvent, CancellationToken, RunContext
from pydantic_ai import exceptions as failures
from pydantic_ai import messages as said
from pydantic_ai.capabilities import AbstractCapability, Caching
from pydantic_ai.usage import RunUsage, UsageLimits

from forewarp.agent.events import Event, TextDelta, ToolCalled, ToolReturned, UserSaid
from forewarp.agent.functions import CALL, Functions
from forewarp.agent.memory import Shortened
from forewarp.core.errors import ModelError, UsageError
from forewarp.prompts.render import render

if TYPE_CHECKING:
    from forewarp.tools.session import LanguageModel

WORDS = 600
"""Most words of a summary of the conversation."""

_PASSING = (
    failures.ModelRateLimitError,
    failures.ModelUnavailableError,
    failures.ModelServerError,
    failures.ModelConnectionError,
    failures.ModelRequestTimeout,
)


def refused(model: LanguageModel, error: Exception) -> ModelError:
    """Return the error of a model that gave no answer, retryable where it may give one later."""
    found = ModelError(f"{model.label} gave no answer: {error}", hint="check the model's name, key and URL")
    found.retryable = isinstance(error, _PASSING)
    return found


class Stopped(Exception):
    """The turn was ended before its end; `messages` are those so far, `usage` what it took."""

    def __init__(self, messages: Sequence[said.ModelMessage], usage: RunUsage) -> None:
        super().__init__("stopped")
        self.messages, self.usage = list(messages), usage


@dataclass(frozen=True, slots=True)
class Reached:
    """Result of a turn: the text, all messages, and the usage."""

    text: str
    messages: list[said.ModelMessage]
    usage: RunUsage
    seconds: float


class ModelTurn:
    """A turn that can be steered and stopped while it goes."""

    def __init__(
        self, model: LanguageModel, instructions: str, functions: Functions, emit: Callable[[Event], None]
    ) -> None:
        self._model, self._emit = model, emit
        self._token = CancellationToken()
        self._watch = _Watch()
        self._agent: Agent[None, str] = Agent(
            model.model,
            deps_type=type(None),
            output_type=str,
            instructions=instructions,
            tools=functions.all(),
            capabilities=[self._watch, Shortened(), Caching()],
        )
        self._calls: dict[str, float] = {}
        self._messages: Callable[[], list[said.ModelMessage]] = list
        self._steered: dict[str, str] = {}

    @property
    def messages(self) -> list[said.ModelMessage]:
        """Messages so far, with the history; empty before the model was asked."""
        return self._messages()

    def steer(self, text: str, shown: str) -> bool:
        """Give the model a message before its next step; `shown` is the text as the user typed it.

        Returns False if it takes no step any more.
        """
        context = self._watch.context
        if context is None:
            return False
        try:
            number = context.enqueue(text)
        except failures.UserError:
            return False
        if number is not None:
            self._steered[number] = shown
        return number is not None

    def stop(self) -> None:
        """End the turn at once."""
        self._token.cancel()

    async def run(
        self,
        prompt: str,
        history: Sequence[said.ModelMessage],
        *,
        spent: Callable[[RunUsage], str],
    ) -> Reached:
        """Run the turn. `spent` is called with the usage after each step, and returns why to end, "" to go on.

        Whatever ends it, `messages` holds all messages until then.

        Raises `Stopped` when it was stopped, from a `UsageError` where the budget is used up; `ModelError` where the
        provider refuses.
        """
        began = time.perf_counter()
        over = ""
        stream = self._agent.run_stream_events(
            prompt,
            message_history=list(history),
            usage_limits=UsageLimits(request_limit=None),
            cancellation_token=self._token,
        )
        try:
            async with stream as events:
                async for event in events:
                    self._messages = events.all_messages
                    if isinstance(event, AgentRunResultEvent):
                        result = event.result
                        spent(result.usage)
                        return Reached(
                            str(result.output), result.all_messages(), result.usage, time.perf_counter() - began
                        )
                    self._tell(event)
                    if isinstance(event, said.FunctionToolCallEvent | said.FunctionToolResultEvent) and not over:
                        over = spent(events.usage)
                        if over:
                            self._token.cancel()
        except failures.RunCancelled as e:
            raise Stopped(e.all_messages(), e.usage) from (UsageError(over) if over else None)
        except (failures.AgentRunError, failures.UserError) as e:
            raise refused(self._model, e) from e
        finally:
            self._watch.context = None
        raise ModelError(f"{self._model.label} ended without an answer", hint="ask again")

    def _tell(self, event: Any) -> None:
        """Emit the library's event as one of ours; leaves out what nobody needs to see."""
        match event:
            case said.PartStartEvent(part=said.TextPart(content=text)) if text:
                self._emit(TextDelta(text))
            case said.PartDeltaEvent(delta=said.TextPartDelta(content_delta=text)) if text:
                self._emit(TextDelta(text))
            case said.FunctionToolCallEvent(part=part):
                self._calls[part.tool_call_id] = time.perf_counter()
                self._emit(ToolCalled(part.tool_call_id, part.tool_name, _arguments(part)))
            case said.FunctionToolResultEvent(part=part):
                seconds = time.perf_counter() - self._calls.pop(part.tool_call_id, time.perf_counter())
                content: Any = part.content
                result: dict[str, Any] = content if isinstance(content, dict) else {"error": str(content)}
                self._emit(ToolReturned.of(part.tool_call_id, part.tool_name or "", result, seconds))
            case said.EnqueuedMessagesEvent(enqueue_id=number) if number in self._steered:
                self._emit(UserSaid(self._steered.pop(number), steering=True))
            case _:
                pass


async def sum_up(
    model: LanguageModel, history: Sequence[said.ModelMessage]
) -> tuple[str, list[said.ModelMessage], RunUsage]:
    """Have the model sum up a conversation; return the summary, the new history, and the usage.

    Raises `ModelError` where the provider refuses.
    """
    agent = Agent(model.model, capabilities=[Shortened()])
    try:
        result = await agent.run(render("agent_compact.j2", words=WORDS), message_history=list(history))
    except (failures.AgentRunError, failures.UserError) as e:
        raise refused(model, e) from e
    told = said.UserPromptPart(f"What happened so far, as you summed it up:\n\n{result.output}")
    remembered = [said.ModelRequest([told]), said.ModelResponse([said.TextPart("I go on from there.")])]
    return result.output, remembered, result.usage


class _Watch(AbstractCapability[None]):
    """Keeps the run's context, for steering, and tells tools which call they answer."""

    context: RunContext[None] | None = None

    async def before_run(self, ctx: RunContext[None]) -> None:
        self.context = ctx

    async def wrap_tool_execute(
        self, ctx: RunContext[None], *, call: said.ToolCallPart, tool_def: Any, args: Any, handler: Any
    ) -> Any:
        CALL.set(call.tool_call_id)
        return await handler(args)


def _arguments(part: said.ToolCallPart) -> dict[str, Any]:
    """Return a call's arguments, also where the model wrote them malformed."""
    try:
        return part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return {"malformed": str(part.args)[:500]}
