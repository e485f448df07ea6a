"""A conversation: turns of the user and the model as one stream of events, with budget, record and memory."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from forewarp.agent.board import Board
from forewarp.agent.byhand import ByHand
from forewarp.agent.events import (
    Answered,
    ApprovalAsked,
    ApprovalGiven,
    Compacted,
    Event,
    Failed,
    Interrupted,
    Noted,
    Reply,
    SettingChanged,
    Spent,
    ToolCalled,
    ToolReturned,
    UserSaid,
)
from forewarp.agent.kit import Kit, over_budget
from forewarp.agent.settings import Settings
from forewarp.agent.transcript import Past, Transcript, find, read
from forewarp.core.errors import ForewarpError, UsageError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.usage import RunUsage

    from forewarp.agent.turn import ModelTurn
    from forewarp.tools.session import LanguageModel

NO_MODEL = """No language model is set, so this cannot be answered. Without one there is still
`/forecast`, `/measure`, `/search`, `/runs`, `/report` and `/export`; `/help` lists all.

To add one, set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` and type `/model anthropic:NAME` or `/model openai:NAME`; for a
model of your own, `/model openai:NAME --base-url http://127.0.0.1:8000/v1`."""


class Conversation:
    """A conversation: turns, one after the other. Methods are for the event loop's thread but for `emit`, `spend`."""

    def __init__(self, settings: Settings, *, transcript: Transcript | None = None, past: Past | None = None) -> None:
        """Start a conversation, or continue `past`; record it in `transcript`, if given."""
        self.settings = settings
        self.board, self.busy = Board(), False
        self._transcript = transcript
        self._spent, self._booking = Spent(), threading.Lock()
        self._told = self._spent
        self._kit = Kit(self)
        self.tools = ByHand(self._kit, self)
        self._history: list[ModelMessage] = []
        self._stored: tuple[Any, ...] = ()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._work: asyncio.Task[None] | None = None
        self._turn: ModelTurn | None = None
        self._model: tuple[object, LanguageModel] | None = None
        self._questions: dict[str, asyncio.Future[ApprovalGiven]] = {}
        self._doing: dict[str, str] = {}
        self._written: set[Path] = set()
        self._interrupted = self._told_again = False
        if past is not None:
            self._take(past)

    @property
    def id(self) -> str:
        """The conversation's id; "" where it is not recorded."""
        return self._transcript.header.id if self._transcript else ""

    @property
    def spent(self) -> Spent:
        """Amounts spent so far."""
        return self._spent

    @property
    def message_count(self) -> int:
        """Number of messages that the model remembers."""
        return len(self._history) or len(self._stored)

    async def say(self, text: str) -> AsyncGenerator[Event]:
        """Do one turn: a prompt for the model, a slash command, or with `!` a line for the shell where that is allowed.

        The first event is `UserSaid`, the last one `Answered`, `Interrupted` or `Failed`. Closing the generator before
        its end interrupts the turn.
        """
        if self.busy:
            raise UsageError("a turn is on", hint="wait for its end, steer it, or interrupt it")
        self.busy, self._interrupted, self._told_again = True, False, False
        self._loop, self._queue = asyncio.get_running_loop(), asyncio.Queue()
        self._work = asyncio.create_task(self._whole(text))
        self._work.add_done_callback(lambda _: self._queue.put_nowait(None))
        try:
            while (event := await self._queue.get()) is not None:
                self._note(event)
                yield event
        finally:
            if not self._work.done():
                self.interrupt()
                await asyncio.wait([self._work])
            self._work, self._turn, self.busy = None, None, False
            self._doing.clear()

    def steer(self, text: str) -> bool:
        """Give the model a message before its next step; return False if no turn of the model is running."""
        if self._turn is None:
            return False
        from forewarp.agent.mentions import expand

        try:
            whole = expand(text, self.settings.folder)
        except UsageError:
            return False  # said as a turn of its own, it is told what is wrong with the file
        return self._turn.steer(whole, text)

    def interrupt(self) -> None:
        """End the turn at once and keep what was done."""
        if self._work is None or self._work.done():
            return
        self._interrupted = True
        for question in self._questions.values():
            if not question.done():
                question.cancel()
        self._kit.interrupt()
        if self._turn is not None:
            self._turn.stop()
        else:
            self._work.cancel()

    def answer(self, call: str, reply: Reply, why: str = "") -> None:
        """Answer an `ApprovalAsked`; `always` asks no more as long as the budget lasts."""
        question = self._questions.get(call)
        if question is not None and not question.done():
            question.set_result(ApprovalGiven(call, reply, why))

    def close(self) -> None:
        """End the measuring processes and the record."""
        self._kit.close()
        if self._transcript is not None:
            if self._spent != self._told:
                self._transcript.write(self._spent)
            self._transcript.close()

    def emit(self, event: Event) -> None:
        """Put an event on the stream of the turn; may be called from any thread."""
        if self._loop is None or not self.busy:
            return
        self._loop.call_soon_threadsafe(self._queue.put_nowait, event)

    def spend(
        self, *, measurements: int = 0, device_s: float = 0.0, tokens: int = 0, dollars: float | None = 0.0
    ) -> None:
        """Add what a tool spent to the totals and emit them; may be called from any thread."""
        with self._booking:
            s = self._spent
            now = self._spent = replace(
                s,
                measurements=s.measurements + measurements,
                device_s=s.device_s + device_s,
                input_tokens=s.input_tokens + tokens,
                dollars=None if s.dollars is None or dollars is None else s.dollars + dollars,
            )
        self.emit(now)

    async def ask(self, question: ApprovalAsked) -> ApprovalGiven:
        """Ask the user for approval and wait; an interrupted turn counts as a refusal."""
        if self._interrupted:  # nobody would answer: the questions of the turn were cancelled before this one came
            return ApprovalGiven(question.call, "no", "interrupted")
        future = self._questions[question.call] = asyncio.get_running_loop().create_future()
        self.emit(question)
        try:
            given = await future
        except asyncio.CancelledError:
            given = ApprovalGiven(question.call, "no", "interrupted")
        finally:
            self._questions.pop(question.call, None)
        self.emit(given)
        if given.reply == "always" and not question.once and self.settings.approval == "each":
            self.change("budget", approval="budget")
        return given

    def change(self, shown: str, **values: Any) -> None:
        """Replace settings, and emit `SettingChanged` with the first one's name and `shown` as its value.

        What depends on them, such as an open device, is opened anew when it is needed next.
        """
        before, self.settings = self.settings, replace(self.settings, **values)
        if self.settings.place != before.place:
            self._kit.interrupt()
        self.emit(SettingChanged(next(iter(values)), shown))

    async def compact(self) -> None:
        """Replace the model's memory by its own summary of the conversation."""
        from pydantic_ai.usage import RunUsage

        from forewarp.agent.turn import sum_up

        history = self._remembered()
        if not history:
            raise UsageError("there is nothing to sum up yet")
        asked = self._language_model()
        summary, messages, usage = await sum_up(asked, history)
        self._pay(asked, usage, RunUsage())
        with self._booking:
            self._spent = replace(self._spent, context_tokens=usage.output_tokens)
        self._remember(messages)
        self.emit(Compacted(summary))

    async def resume(self, conversation: str) -> None:
        """Continue another conversation in place of this one, by its id or a unique beginning of it.

        Its events are emitted again, so that they are shown. Raises `UsageError` for an unknown one.
        """
        past = read(Path(find(conversation, self.settings.place).path))
        self._told_again = True  # its record has all that already
        if self._transcript is not None:
            self._transcript.close()
            self._transcript = Transcript(Path(past.header.path), past.header)
        self.board = Board()
        self._take(past)
        for event in past.events:
            self.emit(event)

    async def _whole(self, text: str) -> None:
        """Run a whole turn; errors and interruptions are emitted as events."""
        began = time.perf_counter()
        self.emit(UserSaid(text))
        if self._spent != self._told:  # what an interrupted search still booked when its turn was over
            self.emit(self._spent)
        try:
            if text.startswith("/"):
                from forewarp.agent.slash import run

                await run(text, self)
                self.emit(Answered("", seconds=time.perf_counter() - began))
            elif text.startswith("!"):
                from forewarp.agent.shell import run_line

                self.emit(Noted(await run_line(text[1:].strip(), self.settings)))
                self.emit(Answered("", seconds=time.perf_counter() - began))
            elif self.settings.model is None:
                self.emit(Noted(NO_MODEL))
                self.emit(Failed("model", "no language model is set", "pass --model, or type /model NAME"))
            else:
                await self._model_turn(text)
        except asyncio.CancelledError:
            self.emit(Interrupted(self._during()))
        except ForewarpError as e:
            self.emit(
                Interrupted(self._during()) if self._interrupted else Failed(e.code, e.message, e.hint, e.retryable)
            )
        except Exception as e:
            self.emit(
                Failed("internal", f"{type(e).__name__}: {e}", "this is a fault of forewarp; the conversation goes on")
            )

    async def _model_turn(self, text: str) -> None:
        from pydantic_ai.usage import RunUsage

        from forewarp.agent.functions import Functions
        from forewarp.agent.instructions import instructions
        from forewarp.agent.mentions import expand
        from forewarp.agent.turn import ModelTurn, Stopped

        over = over_budget(self.settings.budget, replace(self._spent, measurements=0, device_s=0.0))
        if over:
            raise UsageError(over, hint="`/budget` raises it")
        asked = self._language_model()
        if self._spent.context_tokens > self.settings.compact_at:
            await self.compact()
        prompt = expand(text, self.settings.folder)
        booked = [RunUsage()]

        def spent(usage: RunUsage) -> str:
            self._pay(asked, usage, booked[0])
            booked[0] = copy(usage)
            if len(turn.messages) > len(self._history):  # each is whole once it is there
                self._remember(turn.messages)
            return over_budget(self.settings.budget, replace(self._spent, measurements=0, device_s=0.0))

        told = await asyncio.to_thread(instructions, self.settings.place)
        turn = self._turn = ModelTurn(asked, told, Functions(self._kit, self, self._written), self.emit)
        before = self._remembered()
        try:
            done = await turn.run(prompt, before, spent=spent)
        except Stopped as e:
            self._pay(asked, e.usage, booked[0])
            self._remember(e.messages)
            if e.__cause__ is not None:
                raise UsageError(str(e.__cause__), hint="`/budget` raises it") from None
            self.emit(Interrupted(self._during()))
            return
        except BaseException:
            # A fault of the provider or of a tool: what was said and measured in this turn is not forgotten.
            self._remember(turn.messages or before)
            raise
        self._remember(done.messages)
        cost = asked.cost(done.seconds, done.usage)
        self.emit(Answered(done.text, cost.input_tokens, cost.output_tokens, cost.dollars, done.seconds))

    def _language_model(self) -> LanguageModel:
        from forewarp.tools import session

        key = (self.settings.model, self.settings.base_url)
        if self._model is None or self._model[0] != key:
            made = session.make_model(self.settings.model, self.settings.base_url)
            if made is None:
                raise UsageError("no language model is set", hint="pass --model, or type /model NAME")
            if self.settings.budget.dollars is not None:
                session.check_price(made)
            self._model = (key, made)
        return self._model[1]

    def _pay(self, asked: LanguageModel, usage: RunUsage, booked: RunUsage) -> None:
        """Add a model's usage since `booked`, its usage when last counted, to the totals; emit them if they changed."""
        now, then = asked.cost(0.0, usage), asked.cost(0.0, booked)
        read = now.input_tokens - then.input_tokens
        with self._booking:
            s = self._spent
            priced = s.dollars is not None and now.dollars is not None
            told = self._spent = replace(
                s,
                input_tokens=s.input_tokens + read,
                output_tokens=s.output_tokens + now.output_tokens - then.output_tokens,
                dollars=(s.dollars or 0.0) + (now.dollars or 0.0) - (then.dollars or 0.0) if priced else None,
                context_tokens=read or s.context_tokens,
            )
        if told != s:
            self.emit(told)

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

    def _take(self, past: Past) -> None:
        self._history, self._stored, self._spent, self._written = [], past.messages, Spent(), set()
        writing: dict[str, str] = {}
        for event in past.events:
            self.board.apply(event)
            if isinstance(event, Spent):
                self._spent = event
            elif isinstance(event, ToolCalled) and event.tool == "write_file":
                writing[event.call] = str(event.arguments.get("path", ""))
            elif isinstance(event, ToolReturned) and event.call in writing and "error" not in event.result:
                self._written.add((self.settings.folder.resolve() / writing[event.call]).resolve())
        self._told = self._spent

    def _note(self, event: Event) -> None:
        """Add an emitted event to the board and the transcript."""
        self.board.apply(event)
        if isinstance(event, Spent):
            self._told = event
        elif isinstance(event, ToolCalled):
            self._doing[event.call] = event.tool
        elif isinstance(event, ToolReturned):
            self._doing.pop(event.call, None)
        if self._transcript is not None and not self._told_again:
            known = self._transcript.problem
            self._transcript.write(event)
            if self._transcript.problem and not known:
                self._queue.put_nowait(Noted(f"**Attention:** {self._transcript.problem}"))

    def _during(self) -> str:
        return ", ".join(self._doing.values()) or ("the answer" if self._turn is not None else "the command")
