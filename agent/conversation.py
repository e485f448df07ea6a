"""A conversation of the user with a model: its turns, its memory, its spending and its record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarp.agent import events
from forewarp.agent.base import BaseConversation
from forewarp.agent.candidates import Candidates
from forewarp.agent.edits import FileEdits
from forewarp.agent.files import with_mentioned_files
from forewarp.agent.kernel_tools import KernelTools
from forewarp.agent.settings import Settings, over_budget
from forewarp.agent.transcript import RecordedConversation, Transcript, find, read
from forewarp.core.errors import ForewarpError, UsageError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.usage import RunUsage

    from forewarp.agent.model_turn import ModelTurn
    from forewarp.tools.session import LanguageModel

SHORTENED = 4
"""Most times that the memory is shortened within one turn: a conversation of few large messages stays too long."""


class Conversation(BaseConversation):
    """A conversation: turns, one after the other."""

    def __init__(
        self, settings: Settings, *, transcript: Transcript | None = None, past: RecordedConversation | None = None
    ) -> None:
        """Start a conversation, or continue `past`; record it in `transcript`, if given."""
        super().__init__(settings)
        self._transcript = transcript
        self._tools = KernelTools(self)
        self._emitted = self._spent
        self._history: list[ModelMessage] = []
        self._stored: tuple[Any, ...] = ()
        """Messages of a past conversation that are not read yet: the library for that takes long to load."""
        self._turn: ModelTurn | None = None
        self._model: tuple[object, LanguageModel] | None = None
        self._running: dict[str, str] = {}
        self._edits = FileEdits(self)
        self._resuming = False
        self._why_outline = ""
        """Why there was no summary, as it was said in this turn."""
        if past is not None:
            self._restore(past)

    @property
    def id(self) -> str:
        """The conversation's id; "" where it is not recorded."""
        return self._transcript.header.id if self._transcript else ""

    @property
    def message_count(self) -> int:
        return len(self._history) or len(self._stored)

    def steer(self, text: str) -> bool:
        """Give the model a message before its next step; return False if no turn of the model is running."""
        if self._turn is None:
            return False
        try:
            whole = with_mentioned_files(text, self.settings.folder)
        except UsageError:
            return False  # as a turn of its own, it is told what is wrong with the file
        return self._turn.steer(whole, text)

    def close(self) -> None:
        self._tools.close()
        if self._transcript is not None:
            if self._spent != self._emitted:
                self._transcript.write(self._spent)
            self._transcript.close()

    def change(self, shown: str, **values: Any) -> None:
        """Replace settings; an open device that is no longer meant is closed."""
        place = self.settings.place
        super().change(shown, **values)
        if self.settings.place != place:
            self._tools.interrupt()

    async def compact(self) -> None:
        """Replace the model's memory by its own summary of the conversation; raises `UsageError` without one."""
        history = self._remembered()
        if not history:
            raise UsageError("there is nothing to summarise yet", hint="ask the model something first")
        if await self._summarise(self._language_model(), history, keep=False, needed=False) is None:
            raise asyncio.CancelledError

    async def _summarise(
        self, model: LanguageModel, history: Sequence[ModelMessage], *, keep: bool, needed: bool
    ) -> list[ModelMessage] | None:
        """Replace the model's memory by a summary; return what it remembers now, None if the user stopped it.

        Where a summary is `needed` and there is none to be had, an outline takes its place.
        """
        from pydantic_ai.usage import RunUsage

        from forewarp.agent.memory import summarised

        def running(turn: ModelTurn | None) -> None:
            self._turn, self.summarising = turn, turn is not None
            self.emit(self._spent)  # as the status line changes

        room = self.room
        made = await summarised(model, history, room, self.emit, keep=keep, needed=needed, turn=running)
        if made is None:
            return None
        self._pay(model, made.usage, RunUsage())
        with self._booking:
            self._spent = replace(self._spent, context_tokens=0)
        self._remember(made.messages)
        if made.why_outline not in ("", self._why_outline):
            self._why_outline = made.why_outline
            self.emit(events.Noted(f"**No summary:** {made.why_outline}. The model goes on with an outline."))
        self.emit(events.Compacted(made.summary))
        return made.messages

    async def resume(self, conversation: str) -> None:
        """Continue another conversation in place of this one, by its id or a unique beginning of it.

        Its events are emitted again, so that they are shown. Raises `UsageError` for an unknown one.
        """
        past = read(Path(find(conversation, self.settings.place).path))
        self._resuming = True  # its record has all that already
        if self._transcript is not None:
            self._transcript.close()
            self._transcript = Transcript(Path(past.header.path), past.header)
        self.candidates = Candidates()
        self._restore(past)
        for event in past.events:
            self.emit(event)

    async def _run(self, text: str) -> None:
        began, self._resuming, self._turn = time.perf_counter(), False, None
        self._running.clear()
        self._why_outline = ""
        self.emit(events.UserSaid(text))
        if self._spent != self._emitted:  # what an interrupted search still booked when its turn was over
            self.emit(self._spent)
        try:
            if text.startswith(("/", "!")):
                from forewarp.agent.commands import run_command, run_shell

                if text[0] == "/":
                    note = await run_command(text, self, self._tools, self._edits)
                else:
                    note = await run_shell(text[1:], self.settings)
                if note:
                    self.emit(events.Noted(note))
                self.emit(events.Answered("", seconds=time.perf_counter() - began))
            elif self.settings.model is None:
                hint = "pass --model, or type /model NAME; slash commands, such as /demo, need none"
                self.emit(events.Failed("model", "no language model is set", hint))
            else:
                await self._ask_model(text)
        except asyncio.CancelledError:
            self.emit(events.Interrupted(self._during()))
        except ForewarpError as e:
            failed = events.Failed(e.code, e.message, e.hint, e.retryable)
            self.emit(events.Interrupted(self._during()) if self._interrupted else failed)
        except Exception as e:
            hint = "this is a fault of forewarp; the conversation goes on"
            self.emit(events.Failed("internal", f"{type(e).__name__}: {e}", hint))
        finally:
            self._turn = None

    async def _ask_model(self, text: str) -> None:
        from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart
        from pydantic_ai.usage import RunUsage

        from forewarp.agent.instructions import instructions
        from forewarp.agent.model_tools import ModelTools
        from forewarp.agent.model_turn import ModelTurn

        over = over_budget(self.settings.budget, self._spent)
        if over:
            raise UsageError(over, hint="`/budget` raises it")
        model = self._language_model()
        prompt = await asyncio.to_thread(with_mentioned_files, text, self.settings.folder)
        booked, began = RunUsage(), time.perf_counter()

        def check() -> str:
            nonlocal booked
            self._pay(model, turn.usage, booked)
            booked = copy(turn.usage)
            if turn.all_messages and isinstance(turn.all_messages[-1], ModelResponse):  # the library changes requests
                self._remember(turn.all_messages)
            used, cap = booked.input_tokens + booked.output_tokens, self.settings.turn_tokens
            if cap is not None and used >= cap:
                return f"the turn has used {used:,} tokens of its {cap:,}"
            return over_budget(self.settings.budget, self._spent)

        system = await asyncio.to_thread(instructions, self.settings)
        tools = ModelTools(self, self._tools, self._edits)
        turn = ModelTurn(
            *(model, system, tools.all(), self.emit), check=check, room=lambda: self.room, steps=self.settings.steps
        )
        try:
            answer = await self._answer_of(turn, model, ModelRequest([UserPromptPart(prompt)]))
        finally:
            # Whatever ended it: what was said, done and measured in this turn is not forgotten.
            check()
            self._remember(turn.all_messages)
        if answer is None:
            self.emit(events.Interrupted(self._during()))
            return
        seconds = time.perf_counter() - began
        cost = model.cost(seconds, turn.usage)
        self.emit(events.Answered(answer, cost.input_tokens, cost.output_tokens, cost.dollars, seconds))

    async def _answer_of(self, turn: ModelTurn, model: LanguageModel, prompt: ModelMessage) -> str | None:
        """Return the model's answer, its memory shortened as often as it is too long; None if the user stopped it."""
        from forewarp.agent.model_turn import ContextFullError

        before = turn.all_messages = self._remembered()
        messages: list[ModelMessage] | None = [*before, prompt]
        for shortened in range(SHORTENED + 1):
            self._turn = turn
            try:
                return await turn.run(messages)
            except ContextFullError as full:
                if shortened == SHORTENED:
                    if len(turn.all_messages) <= 3:  # the prompt itself does not fit
                        turn.all_messages = before
                    raise
                if full.window is not None and self.settings.context is None:
                    self.change(f"{full.window:,}", context=full.window)
                messages = await self._summarise(model, turn.all_messages, keep=True, needed=True)
            if messages is None:
                break
        return None

    def _stop(self, work: asyncio.Task[None]) -> None:
        self._tools.interrupt()
        if self._turn is not None:
            self._turn.stop()
        else:
            work.cancel()

    def _language_model(self) -> LanguageModel:
        from forewarp.tools import session

        key = (self.settings.model, self.settings.base_url)
        if self._model is None or self._model[0] != key:
            made = session.make_model(self.settings.model, self.settings.base_url)
            if made is None:
                raise UsageError("no language model is set", hint="pass --model, or type /model NAME")
            if self.settings.budget.dollars is not None:
                session.check_price(made)
            self._model, self.known_context = (key, made), made.model.context_window
        return self._model[1]

    def _pay(self, model: LanguageModel, usage: RunUsage, booked: RunUsage) -> None:
        """Add a model's usage since `booked`, its usage when last counted, to the totals; emit them if they changed."""
        now, then = model.cost(0.0, usage), model.cost(0.0, booked)
        read = now.input_tokens - then.input_tokens
        with self._booking:
            s = self._spent
            priced = s.dollars is not None and now.dollars is not None
            paid = self._spent = replace(
                s,
                input_tokens=s.input_tokens + read,
                output_tokens=s.output_tokens + now.output_tokens - then.output_tokens,
                dollars=(s.dollars or 0.0) + (now.dollars or 0.0) - (then.dollars or 0.0) if priced else None,
                context_tokens=read or s.context_tokens,
            )
        if paid != s:
            self.emit(paid)

    def _remembered(self) -> list[ModelMessage]:
        """Return the model's message history; tool calls left unanswered by a fault or a kill are closed."""
        from pydantic_ai.messages import ModelMessagesTypeAdapter, repair_messages

        if self._stored:
            self._history, self._stored = ModelMessagesTypeAdapter.validate_python(list(self._stored)), ()
        self._history = repair_messages(self._history)
        return self._history

    def _remember(self, messages: Sequence[ModelMessage]) -> None:
        """Replace the model's message history, and append its new messages to the transcript."""
        kept = 0
        for old, new in zip(self._history, messages, strict=False):
            if old is not new:
                break
            kept += 1
        self._history, self._stored = list(messages), ()
        if self._transcript is not None and len(messages) > kept:
            from pydantic_ai.messages import ModelMessagesTypeAdapter

            self._transcript.remember(kept, ModelMessagesTypeAdapter.dump_python(self._history[kept:], mode="json"))

    def _restore(self, past: RecordedConversation) -> None:
        self._history, self._stored, self._spent = [], past.messages, events.Spent()
        self._edits = FileEdits(self)
        writing: dict[str, str] = {}
        for event in past.events:
            self.candidates.apply(event)
            if isinstance(event, events.Spent):
                self._spent = event
            elif isinstance(event, events.ToolCalled) and event.tool == "write_file":
                writing[event.call] = str(event.arguments.get("path", ""))
            elif isinstance(event, events.ToolReturned) and event.call in writing and "error" not in event.result:
                self._edits.written.add((self.settings.folder.resolve() / writing[event.call]).resolve())
        self._emitted = self._spent

    def _note(self, event: events.ConversationEvent) -> None:
        super()._note(event)
        if isinstance(event, events.Spent):
            self._emitted = event
        elif isinstance(event, events.ToolCalled):
            self._running[event.call] = event.tool
        elif isinstance(event, events.ToolReturned):
            self._running.pop(event.call, None)
        if self._transcript is not None and not self._resuming:
            known = self._transcript.problem
            self._transcript.write(event)
            if self._transcript.problem and not known:
                self._queue.put_nowait(events.Noted(f"**Attention:** {self._transcript.problem}"))

    def _during(self) -> str:
        return ", ".join(self._running.values()) or ("the answer" if self._turn is not None else "the command")
