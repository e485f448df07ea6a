"""One turn of the model: from the library's stream of events to ours, with what the model is sent of the history."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import Agent, AgentRunResult, AgentRunResultEvent, CancellationToken, RunContext, exceptions
from pydantic_ai.capabilities import AbstractCapability, Caching
from pydantic_ai.messages import (
    EnqueuedMessagesEvent,
    FunctionToolCallEvent,
    FunctionToolResultEvent,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.usage import RunUsage, UsageLimits

from forewarp.agent.events import ConversationEvent, TextDelta, ToolCalled, ToolReturned, UserSaid
from forewarp.core.errors import ForewarpError, ModelError, UsageError
from forewarp.prompts.render import render
from forewarp.tools import describe, session

if TYPE_CHECKING:
    from forewarp.tools.parts import Place
    from forewarp.tools.session import LanguageModel

LANGUAGES = ("triton", "cuda", "cpp")
SUMMARY_WORDS = 600

BLOCK = 16_000
"""Characters after which older texts are left out: the latest one to two blocks are sent whole."""

LONGEST = 400
"""Characters of an argument, or of an entry of a result, that are never left out."""

LEFT_OUT = "characters were left out here"
_KEPT = ("summary", "reason", "error", "hint")

_PASSING = (
    exceptions.ModelRateLimitError,
    exceptions.ModelUnavailableError,
    exceptions.ModelServerError,
    exceptions.ModelConnectionError,
    exceptions.ModelRequestTimeout,
)


class ModelTurn:
    """A turn that can be steered and stopped while it goes."""

    def __init__(
        self,
        model: LanguageModel,
        instructions: str,
        tools: Sequence[Callable[..., Any]],
        emit: Callable[[ConversationEvent], None],
    ) -> None:
        self._model, self._emit = model, emit
        self.over = ""
        """Cap of the budget that ended the turn, in words."""
        self._token = CancellationToken()
        self._hooks = _Hooks()
        self._agent: Agent[None, str] = Agent(
            model.model,
            deps_type=type(None),
            output_type=str,
            instructions=instructions,
            tools=tools,
            capabilities=[self._hooks, Caching()],
        )
        self._calls: dict[str, float] = {}
        self._all_messages: Callable[[], list[ModelMessage]] = list
        self._steered: dict[str, str] = {}

    @property
    def all_messages(self) -> list[ModelMessage]:
        """Messages so far, with the history; empty before the model was asked."""
        return self._all_messages()

    def steer(self, text: str, shown: str) -> bool:
        """Give the model a message before its next step; `shown` is the text as the user typed it.

        Returns False if it takes no step any more.
        """
        context = self._hooks.context
        try:
            number = context.enqueue(text) if context is not None else None
        except exceptions.UserError:
            number = None
        if number is not None:
            self._steered[number] = shown
        return number is not None

    def stop(self) -> None:
        """End the turn at once."""
        self._token.cancel()

    async def run(
        self, prompt: str, history: Sequence[ModelMessage], *, spent: Callable[[RunUsage], str]
    ) -> AgentRunResult[str]:
        """Run the turn. `spent` is called with the usage after each step, and returns why to end, "" to go on.

        Whatever ends it, `all_messages` holds all messages until then. Raises `RunCancelled` when it was stopped,
        because of what `over` says if that is not ""; `ModelError` where the provider refuses.
        """
        stream = self._agent.run_stream_events(
            prompt,
            message_history=list(history),
            usage_limits=UsageLimits(request_limit=None),
            cancellation_token=self._token,
        )
        try:
            async with stream as events:
                async for event in events:
                    self._all_messages = events.all_messages
                    if isinstance(event, AgentRunResultEvent):
                        spent(event.result.usage)
                        return event.result
                    self._translate(event)
                    if isinstance(event, FunctionToolCallEvent | FunctionToolResultEvent) and not self.over:
                        self.over = spent(events.usage)
                        if self.over:
                            self._token.cancel()
        except exceptions.RunCancelled:
            raise
        except (exceptions.AgentRunError, exceptions.UserError) as e:
            raise _model_error(self._model, e) from e
        finally:
            self._hooks.context = None
        raise ModelError(f"{self._model.label} ended without an answer", hint="ask again")

    def _translate(self, event: Any) -> None:
        """Emit the library's event as one of ours; leave out what nobody needs to see."""
        match event:
            case PartStartEvent(part=TextPart(content=text)) if text:
                self._emit(TextDelta(text))
            case PartDeltaEvent(delta=TextPartDelta(content_delta=text)) if text:
                self._emit(TextDelta(text))
            case FunctionToolCallEvent(part=part):
                self._calls[part.tool_call_id] = time.perf_counter()
                arguments = _arguments(part)
                malformed = {"malformed": str(part.args)[:500]}
                self._emit(ToolCalled(part.tool_call_id, part.tool_name, malformed if arguments is None else arguments))
            case FunctionToolResultEvent(part=part):
                seconds = time.perf_counter() - self._calls.pop(part.tool_call_id, time.perf_counter())
                content: Any = part.content
                result: dict[str, Any] = content if isinstance(content, dict) else {"error": str(content)}
                self._emit(ToolReturned.of(part.tool_call_id, part.tool_name or "", result, seconds))
            case EnqueuedMessagesEvent(enqueue_id=number) if number in self._steered:
                self._emit(UserSaid(self._steered.pop(number), steering=True))
            case _:
                pass


async def summarise(model: LanguageModel, history: Sequence[ModelMessage]) -> tuple[str, list[ModelMessage], RunUsage]:
    """Have the model summarise a conversation; return the summary, the new history, and the usage.

    Raises `ModelError` where the provider refuses.
    """
    agent = Agent(model.model, capabilities=[_Hooks()])
    try:
        result = await agent.run(render("agent_compact.j2", words=SUMMARY_WORDS), message_history=list(history))
    except (exceptions.AgentRunError, exceptions.UserError) as e:
        raise _model_error(model, e) from e
    prompt = UserPromptPart(f"What happened so far, as you summed it up:\n\n{result.output}")
    answer = TextPart("I go on from there.")
    return result.output, [ModelRequest([prompt]), ModelResponse([answer])], result.usage


def instructions(place: Place) -> str:
    """Return the system prompt for a place; a device that is not there, or that only replays, is left out."""
    try:
        device = describe.device_of(place)
    except ForewarpError:
        device = None
    languages = device.languages if device else LANGUAGES
    return render("agent_system.j2", tasks=session.bundled_tasks(), device=device, languages=languages)


class _Hooks(AbstractCapability[Any]):
    """Keeps the run's context for steering, shortens what is sent, and makes answers of the errors of tools."""

    context: RunContext[Any] | None = None

    async def before_run(self, ctx: RunContext[Any]) -> None:
        self.context = ctx

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        return replace(request_context, messages=shortened(request_context.messages))

    async def on_tool_execute_error(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: Any, error: Exception
    ) -> Any:
        if isinstance(error, ForewarpError):
            return {"error": error.message, "hint": error.hint, "retryable": error.retryable}
        if isinstance(error, OSError | ValueError):
            return {"error": str(error), "hint": "", "retryable": False}
        raise error


def _model_error(model: LanguageModel, error: Exception) -> ModelError:
    """Return the error of a model that gave no answer, retryable where it may give one later."""
    made = ModelError(f"{model.label} gave no answer: {error}", hint="check the model's name, key and URL")
    made.retryable = isinstance(error, _PASSING)
    return made


# What is sent of the history. Each step sends all of it; most are kernels that were written and details of results,
# which tools can return again, so older messages go without them. The boundary moves only now and then, by whole
# blocks: the text before it stays the same from step to step, so that the provider's cache of it stays valid.


def shortened(history: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return the messages, those before the last full block without the long texts of calls and results."""
    old, full, size = 0, 0, 0
    for number, message in enumerate(history, 1):
        size += sum(map(_length, message.parts))
        if size >= BLOCK:
            old, full, size = full, number, 0
    short = [replace(m, parts=[_short(part) for part in m.parts]) for m in history[:old]]
    return [*short, *history[old:]]


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
    if isinstance(part, ToolCallPart) and (arguments := _arguments(part)) is not None:
        short = _without_long(arguments)
        return part if short == arguments else replace(part, args=short)
    if isinstance(part, ToolReturnPart) and isinstance(part.content, dict):
        return replace(part, content=_without_long(part.content))
    return part


def _arguments(part: ToolCallPart) -> dict[str, Any] | None:
    """Return a call's arguments; None where the model wrote them malformed."""
    try:
        return part.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return None


def _without_long(values: dict[str, Any]) -> dict[str, Any]:
    def noted(value: Any) -> Any:
        length = len(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str))
        return value if length <= LONGEST else f"({length} {LEFT_OUT})"

    return {name: value if name in _KEPT else noted(value) for name, value in values.items()}
