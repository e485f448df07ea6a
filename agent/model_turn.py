"""One turn of the model: asked until it answers, from the library's stream of events to ours.

An answer that is lost (the network, the provider, a stream that breaks off or stays silent) or that is none (empty, cut
off at the output limit, a tool call written as text) is asked for again, a few times, and never taken as the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from pydantic_ai import Agent, AgentRunResultEvent, CancellationToken, RunContext, exceptions
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
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestContext
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RunUsage, UsageLimits

from forewarp.agent import events
from forewarp.agent.history import BLOCK, arguments_of, encodable, length_of, shortened
from forewarp.core.errors import ForewarpError, ModelError, UsageError

if TYPE_CHECKING:
    from forewarp.tools.session import LanguageModel

LOST_TRIES, NO_ANSWER_TRIES = 5, 3
"""Most times that a model is asked again: after answers that were lost on the way, and after those that were none."""

MALFORMED = 4
"""Malformed calls in a row that go back to the model; one more ends the turn."""

SAME_CALLS, REFUSED_CALLS = 3, 3
"""Most times that one call with one result is carried out in a turn, and most refusals of it before the turn ends."""

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
"""Seconds before a lost answer is asked for again: at first, doubled each time, and at most."""

LONGEST_ASKED_S = 120.0
"""Seconds to wait where the provider asks for it; longer ones end the turn."""

LONGEST_ANSWER = 10
"""Times the seconds of silence that a model is allowed, after which an answer that still comes is given up."""

CHARACTERS_PER_TOKEN = 3.0
"""Of program text and JSON, to guess tokens before a provider counts them: rather too many tokens than too few."""

MOST_CHARACTERS = 5.0
"""Characters that no token has more of, on average."""

_CALL_AS_TEXT = re.compile(
    r'<(tool_call|function_call|function=|invoke)|\[TOOL_CALLS\]|^\s*(```\w*\s*)?\{\s*"(name|tool|tool_name|function)"\s*:'
)


class ContextFullError(ModelError):
    """The conversation is too long for the model. `window` is the context that the provider named, in tokens."""

    def __init__(self, message: str, window: int | None = None) -> None:
        super().__init__(message, hint="a new conversation has room again; /model chooses a model that reads more")
        self.window = window


class _NoAnswerError(Exception):
    """An answer that does not count. `feedback` tells the model what was wrong with it; "" where it is not at fault.

    `hint` tells the user what to do when no other answer comes.
    """

    def __init__(self, reason: str, *, feedback: str = "", wait_s: float | None = None, hint: str = "") -> None:
        super().__init__(reason)
        self.reason, self.feedback, self.wait_s, self.hint = reason, feedback, wait_s, hint

    @property
    def kind(self) -> Literal["lost", "none"]:
        return "none" if self.feedback else "lost"


class ModelTurn:
    """A turn that can be steered and stopped while it goes.

    `all_messages` has the history, the prompt and what came of it, whatever ends the turn; `usage` what it used.
    """

    def __init__(
        self,
        model: LanguageModel,
        instructions: str,
        tools: Sequence[Callable[..., Any]],
        emit: Callable[[events.ConversationEvent], None],
        *,
        check: Callable[[], str] = lambda: "",
        room: Callable[[], int] = lambda: 1_000_000,
        steps: int | None = None,
    ) -> None:
        """Make a turn.

        `check` is called before each step and after each call of a tool; it returns why to end the turn, "" to go on.
        `room` returns the tokens that a request may have, `steps` is how often the model may be asked.
        """
        self._model, self._emit = model, emit
        self.usage = RunUsage()
        self.all_messages: list[ModelMessage] = []
        self._check, self._room, self._steps_left = check, room, steps
        self._steps = steps
        fixed = len(instructions) + sum(len(tool.__doc__ or "") for tool in tools)
        self._counted = (0, fixed / CHARACTERS_PER_TOKEN)
        """Characters of a request's messages, and its tokens with instructions and tools; those of the latest one."""
        self._sent_length = 0
        self._stopped, self._answered = asyncio.Event(), False
        self._end: ForewarpError | _NoAnswerError | None = None
        self._token = CancellationToken()
        self._silence = _Silence(model.timeout_s, self._give_up)
        self._hooks = _Hooks(self)
        self._agent: Agent[None, str] = Agent(
            model.model,
            deps_type=type(None),
            output_type=str,
            instructions=instructions or None,
            tools=tools,
            retries={"tools": 1000, "output": 1000},  # what is malformed, empty or repeated is counted here
            capabilities=[self._hooks, Caching()],
            model_settings=_settings(model),
        )
        self._calls: dict[str, float] = {}
        self._steered: dict[str, tuple[str, str]] = {}
        self._unsent: list[tuple[str, str]] = []
        self._tries: Counter[str] = Counter()
        self._malformed = 0
        self._repeated: dict[str, tuple[str, int]] = {}
        self._refused = 0

    def steer(self, text: str, shown: str) -> bool:
        """Give the model a message before its next step; `shown` is the text as the user typed it.

        Returns False if it takes no step any more.
        """
        if self._answered or self._stopped.is_set():
            return False
        context = self._hooks.context
        if context is None:  # between two requests for the same answer
            self._unsent.append((text, shown))
            return True
        try:
            number = context.enqueue(text)
        except exceptions.UserError:
            number = None
        if number is not None:
            self._steered[number] = (text, shown)
        return number is not None

    def stop(self) -> None:
        self._stopped.set()
        self._token.cancel()

    async def run(self, messages: Sequence[ModelMessage]) -> str | None:
        """Return the answer to messages that end with a request; None if it was stopped.

        Raises `ContextFullError` where they are too long for the model, after which `run` may be called with fewer;
        `ModelError` where no answer is to be had; `UsageError` where a cap of the user's ends the turn.
        """
        self.all_messages = list(messages)
        async with self._model.model:  # closes the connections of the turn in the end
            return await self._asked()

    async def _asked(self) -> str | None:
        feedback = ""
        while not self._stopped.is_set():
            try:
                answer = await self._attempt(feedback)
                self._answered = True
                return answer
            except exceptions.RunCancelled:
                break
            except _NoAnswerError as lost:
                most = LOST_TRIES if lost.kind == "lost" else NO_ANSWER_TRIES
                self._tries[lost.kind] += 1
                if self._tries[lost.kind] > most:
                    raise self._given_up(lost, most + 1) from lost
                wait_s = self._wait_s(lost)
                self._emit(events.Retrying(lost.reason, wait_s, self._tries[lost.kind], most))
                await self._pause(wait_s)
                feedback = lost.feedback
        return None

    async def _attempt(self, feedback: str) -> str:
        """Ask once more, with `feedback` on the answer before; raises `_NoAnswerError`, and what `run` raises."""
        self._token, self._end = CancellationToken(), None
        if self._stopped.is_set():
            self._token.cancel()
        stream = self._agent.run_stream_events(
            None,
            message_history=_with_feedback(self.all_messages, feedback),
            usage=self.usage,
            usage_limits=UsageLimits(request_limit=None),
            cancellation_token=self._token,
        )
        try:
            async with stream as heard:
                try:
                    async for event in heard:
                        if isinstance(event, AgentRunResultEvent):
                            return event.result.output
                        self._keep(heard.all_messages())
                        self._translate(event)
                finally:
                    self._keep(heard.all_messages())
        except exceptions.RunCancelled:
            if self._end is not None and not self._stopped.is_set():
                raise self._end from None
            raise
        except exceptions.ModelContextWindowExceededError as e:
            raise ContextFullError(self._model.error(e).message, _named_window(e)) from e
        except (exceptions.AgentRunError, exceptions.UserError, OSError) as e:
            if isinstance(e.__cause__, json.JSONDecodeError | UnicodeDecodeError):
                raise self._broken_off() from e
            error = self._model.error(e)
            if isinstance(e, exceptions.UnexpectedModelBehavior) and not isinstance(e, exceptions.ContentFilterError):
                feedback = f"Your last answer was of no use: {e}"
                raise _NoAnswerError(error.message, feedback=feedback, hint=error.hint) from e
            wait_s = getattr(e, "retry_after", None)
            if not error.retryable or (wait_s is not None and wait_s > LONGEST_ASKED_S):
                raise error from e
            raise _NoAnswerError(error.message, wait_s=wait_s, hint=error.hint) from e
        except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as e:
            if not self._silence.waits:
                raise
            raise self._broken_off() from e  # the libraries found something else than an answer in the stream
        finally:
            self._silence.end()
            self._hooks.context = None
            self._unsent += self._steered.values()
            self._steered.clear()
        raise _NoAnswerError(f"{self._model.label} ended without an answer")

    def _keep(self, messages: Sequence[ModelMessage]) -> None:
        kept = list(messages)
        if kept and not self._stopped.is_set() and isinstance(kept[-1], ModelResponse) and kept[-1].state != "complete":
            kept.pop()
        self.all_messages = kept or self.all_messages

    def _given_up(self, lost: _NoAnswerError, tries: int) -> ModelError:
        other = "/model chooses another one"
        hint = f"try again later; {other}" if lost.kind == "lost" else f"ask in other words; {other}"
        made = ModelError(f"{lost.reason}, {tries} times in a row", hint=lost.hint or hint)
        made.retryable = lost.kind == "lost"
        return made

    def _broken_off(self) -> _NoAnswerError:
        return _NoAnswerError(f"the answer of {self._model.label} broke off")

    def _wait_s(self, lost: _NoAnswerError) -> float:
        if lost.kind == "none":
            return 0.0
        doubled = FIRST_WAIT_S * 2 ** (self._tries["lost"] - 1)
        return min(doubled, LONGEST_WAIT_S) if lost.wait_s is None else max(lost.wait_s, 0.0)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), seconds)

    def _give_up(self, seconds: float, began: bool) -> None:
        """End the attempt: the model sent nothing for too long, or its answer takes too long."""
        what = "takes longer than" if began else "sent nothing for"
        self._cancel(_NoAnswerError(f"{self._model.label} {what} {seconds:g} s"))

    def _cancel(self, why: ForewarpError | _NoAnswerError) -> None:
        if self._end is None:
            self._end = why
            self._token.cancel()

    # Called from the hooks, in the order of a step

    def begin_run(self, context: RunContext[Any]) -> None:
        """Note the run that can be steered, and give it the messages that came in between."""
        self._hooks.context = context
        unsent, self._unsent = self._unsent, []
        for text, shown in unsent:
            self.steer(text, shown)

    def prepared(self, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        """Return the messages to send; raises an error where the turn ends before this step."""
        if over := self._check():
            raise UsageError(over, hint="`/budget` raises it")
        if self._steps_left is not None:
            if self._steps_left <= 0:
                raise UsageError(
                    f"the turn has taken its {self._steps} steps",
                    hint="say how to go on, or raise the cap with `/budget steps N`",
                )
            self._steps_left -= 1
        room = self._room()
        sent = [encodable(message) for message in shortened(messages, min(BLOCK, room))]
        self._sent_length = length_of(sent)
        length, tokens = self._counted
        tokens += (self._sent_length - length) / CHARACTERS_PER_TOKEN
        tokens = max(tokens, self._sent_length / MOST_CHARACTERS)  # some servers count wrongly, or not at all
        if tokens > room:
            raise ContextFullError(f"the conversation of about {tokens:,.0f} tokens leaves {self._model.label} no room")
        self._silence.begin()
        return sent

    def accepted(self, response: ModelResponse) -> ModelResponse:
        """Return the model's response; raises `_NoAnswerError` for one that is no answer."""
        self._silence.end()
        label, text = self._model.label, (response.text or "").strip()
        if response.usage.input_tokens:
            self._counted = (self._sent_length, response.usage.input_tokens)
        if response.finish_reason == "length":
            reason = f"{label} reached its output limit, and the answer was cut off"
            raise _NoAnswerError(reason, feedback=_CUT_OFF, hint="ask for less at once; /model chooses another one")
        if response.finish_reason == "content_filter":
            raise exceptions.ContentFilterError("it refused to go on")
        # Where a provider did not say how the answer ends, the library takes it for whole.
        ended = self._model.model.provider is None or (response.provider_details or {}).get("finish_reason")
        if not ended or response.finish_reason == "error":
            raise self._broken_off()
        if not response.tool_calls and not text:
            raise _NoAnswerError(f"{label} gave an empty answer", feedback=_EMPTY)
        if not response.tool_calls and _CALL_AS_TEXT.search(text):
            raise _NoAnswerError(f"{label} wrote a call of a tool as text", feedback=_AS_TEXT)
        self._tries.clear()
        return encodable(response)

    def refusal(self, call: ToolCallPart) -> dict[str, Any] | None:
        """Return an error in place of a call that was made too often, with the same result each time."""
        _, times = self._repeated.get(_key(call), ("", 0))
        if times < SAME_CALLS:
            return None
        self._refused += 1
        if self._refused > REFUSED_CALLS:
            self._cancel(
                ModelError(
                    f"{self._model.label} repeats the same call of {call.tool_name}, so the turn was ended",
                    hint="say how to go on; /model chooses another one",
                )
            )
        return {
            "error": f"not done again: this call gave the same result {times} times in this turn",
            "hint": "change something, or answer",
        }

    def note_result(self, call: ToolCallPart, result: Any) -> None:
        """Count how often a call gave the same result."""
        shown = json.dumps(result, sort_keys=True, default=str)
        before, times = self._repeated.get(_key(call), ("", 0))
        self._repeated[_key(call)] = (shown, times + 1 if shown == before else 1)

    # Events

    def _translate(self, event: Any) -> None:
        """Emit the library's event as one of ours; leave out what nobody needs to see."""
        match event:
            case PartStartEvent() | PartDeltaEvent():
                self._silence.heard()
                self._translate_part(event.part if isinstance(event, PartStartEvent) else event.delta)
            case FunctionToolCallEvent(part=part):
                self._calls[part.tool_call_id] = time.perf_counter()
                arguments = arguments_of(part)
                malformed = {"malformed": str(part.args)[:500]}
                self._emit(
                    events.ToolCalled(part.tool_call_id, part.tool_name, malformed if arguments is None else arguments)
                )
                self._check_budget()
            case FunctionToolResultEvent(part=part):
                seconds = time.perf_counter() - self._calls.pop(part.tool_call_id, time.perf_counter())
                self._emit(events.ToolReturned.of(part.tool_call_id, part.tool_name or "", _result(part), seconds))
                self._count_malformed(part)
                self._check_budget()
            case EnqueuedMessagesEvent(enqueue_id=number) if number in self._steered:
                self._emit(events.UserSaid(self._steered.pop(number)[1], steering=True))
            case _:
                pass

    def _translate_part(self, part: Any) -> None:
        match part:
            case TextPart(content=text) | TextPartDelta(content_delta=text) if text:
                self._emit(events.TextDelta(text))
            case ThinkingPart(content=text) | ThinkingPartDelta(content_delta=text) if text:
                self._emit(events.ThoughtDelta(text))
            case _:
                pass

    def _check_budget(self) -> None:
        if over := self._check():
            self._cancel(UsageError(over, hint="`/budget` raises it"))

    def _count_malformed(self, part: Any) -> None:
        self._malformed = self._malformed + 1 if getattr(part, "outcome", "") == "retried" else 0
        if self._malformed > MALFORMED:
            last = _result(part)["error"]
            self._cancel(
                ModelError(
                    f"{self._model.label} made {self._malformed} malformed calls in a row, the last one: {last}",
                    hint="ask in other words; /model chooses another one",
                )
            )


_EMPTY = "Your last answer was empty. Call a tool, or answer in words."
_CUT_OFF = (
    "Your last answer reached the output limit and was cut off; nothing of it was used. Do it in smaller steps: write "
    "a long file in parts, and answer in fewer words."
)
_AS_TEXT = (
    "You wrote the call of a tool as text, so nothing was called. Call tools by the interface for function calls, not "
    "in the text of an answer."
)


class _Silence:
    """Calls back when a model that was asked sends nothing for some seconds, or takes far longer than that."""

    def __init__(self, limit_s: float, give_up: Callable[[float, bool], None]) -> None:
        self._limit_s, self._give_up = limit_s, give_up
        self._alarm: asyncio.TimerHandle | None = None
        self._began = 0.0

    @property
    def waits(self) -> bool:
        """True while an answer is awaited, or comes."""
        return self._alarm is not None

    def begin(self) -> None:
        self._began = time.monotonic()
        self._set()

    def heard(self) -> None:
        longest = LONGEST_ANSWER * self._limit_s
        if self._alarm is None:
            return
        if time.monotonic() - self._began > longest:
            self._give_up(longest, True)
        else:
            self._set()

    def end(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _set(self) -> None:
        self.end()
        self._alarm = asyncio.get_running_loop().call_later(self._limit_s, self._give_up, self._limit_s, False)


class _Hooks(AbstractCapability[Any]):
    """Connects the library's run to the turn, and makes answers of the errors of tools."""

    context: RunContext[Any] | None = None

    def __init__(self, turn: ModelTurn) -> None:
        self._turn = turn

    async def before_run(self, ctx: RunContext[Any]) -> None:
        self._turn.begin_run(ctx)

    async def prepare_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        return replace(request_context, messages=self._turn.prepared(request_context.messages))

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        return self._turn.accepted(response)

    async def before_tool_execute(self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: Any) -> Any:
        if (refusal := self._turn.refusal(call)) is not None:
            raise exceptions.SkipToolExecution(refusal)
        return args

    async def after_tool_execute(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: Any, result: Any
    ) -> Any:
        self._turn.note_result(call, result)
        return result

    async def on_tool_execute_error(
        self, ctx: RunContext[Any], *, call: ToolCallPart, tool_def: Any, args: Any, error: Exception
    ) -> Any:
        result: dict[str, Any]
        if isinstance(error, ForewarpError):
            result = {"error": error.message, "hint": error.hint, "retryable": error.retryable}
        elif isinstance(error, OSError | ValueError):
            result = {"error": str(error), "hint": "", "retryable": False}
        else:
            raise error
        self._turn.note_result(call, result)
        return result


def _settings(model: LanguageModel) -> ModelSettings | None:
    """Return the settings of a provider's requests: the SDK neither asks again nor gives up before the turn does."""
    if model.model.provider is None:  # a model in this process
        return None
    return ModelSettings(timeout=(LONGEST_ANSWER + 1) * model.timeout_s, max_retries=0)


def _with_feedback(messages: Sequence[ModelMessage], feedback: str) -> list[ModelMessage]:
    """Return messages that end with a request, with a text for the model after all else in it."""
    last = messages[-1]
    if not feedback or not isinstance(last, ModelRequest):
        return list(messages)
    return [*messages[:-1], replace(last, parts=[*last.parts, UserPromptPart(feedback)])]


def _key(call: ToolCallPart) -> str:
    return f"{call.tool_name} {json.dumps(arguments_of(call), sort_keys=True, default=str)}"


def _result(part: Any) -> dict[str, Any]:
    """Return a tool's result as data; what was wrong with a malformed call is its error."""
    content: Any = part.content
    if isinstance(content, dict):
        return cast("dict[str, Any]", content)
    if isinstance(content, list):
        details = cast("list[Mapping[str, Any]]", content)
        content = "; ".join(": ".join(filter(None, (".".join(map(str, d["loc"])), d["msg"]))) for d in details)
    unknown = re.match(r"Unknown tool name: '(.*?)'", str(content))
    return {"error": f"there is no tool {unknown[1]}" if unknown else str(content)}


def _named_window(error: Exception) -> int | None:
    """Return the context in tokens that a provider named when it refused a request; None where it named none."""
    text = f"{error} {getattr(error, 'body', '')}"
    found = re.search(r"(?:maximum context length|context (?:window|size|length))\D{0,40}?(\d[\d,]{2,})", text)
    return int(found[1].replace(",", "")) if found else None
