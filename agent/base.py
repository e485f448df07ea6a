"""Turns as one stream of events, with settings, candidates, spending and approval."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any, Literal

from forewarp.agent import events
from forewarp.agent.candidates import Candidates
from forewarp.agent.settings import Settings
from forewarp.core.errors import UsageError

GATHER_S = 0.03
"""Seconds within which pieces of the model's text become one event: thousands come in a second, of a token each."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Caller of a tool, and the id of the call, which its events bear; what the user typed needs no approval."""

    id: str
    by: Literal["agent", "user"]


class BaseConversation:
    """Part that a conversation and the replay of one share; they say what a turn does (`_run`).

    Methods are for the event loop's thread but for `emit` and `spend`.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.candidates = Candidates()
        self.busy = False
        """True while a turn is running."""
        self.known_context: int | None = None
        """Tokens that the model is known to read, before the user's setting."""
        self._spent, self._booking = events.Spent(), threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        """Identifier of the thread that the loop runs in."""
        self._queue: asyncio.Queue[events.ConversationEvent | None] = asyncio.Queue()
        self._pieces: list[events.TextDelta | events.ThoughtDelta] = []
        self._work: asyncio.Task[None] | None = None
        self._questions: dict[str, asyncio.Future[events.ApprovalGiven]] = {}
        self._asked_s: dict[str, float] = defaultdict(float)
        """Seconds that calls waited for the user's word, by their ids."""
        self._interrupted = self.summarising = False

    @property
    def id(self) -> str:
        """The conversation's id; "" where it is not recorded."""
        return ""

    @property
    def spent(self) -> events.Spent:
        return self._spent

    @property
    def room(self) -> int:
        """Tokens of a request from which on the conversation is summarised."""
        return self.settings.room(self.known_context)

    async def say(self, text: str) -> AsyncGenerator[events.ConversationEvent]:
        """Do one turn: a prompt for the model, a slash command, or with `!` a line for the shell where that is allowed.

        The first event is `UserSaid`, the last one `Answered`, `Interrupted` or `Failed`. Closing the generator before
        its end interrupts the turn.
        """
        if self.busy:
            raise UsageError("a turn is on", hint="wait for its end, steer it, or interrupt it")
        self.busy, self._interrupted = True, False
        self._loop, self._queue = asyncio.get_running_loop(), asyncio.Queue()
        self._thread, self._pieces = threading.get_ident(), []
        self._work = asyncio.create_task(self._run(text))
        self._work.add_done_callback(lambda _: self._put(None))
        try:
            ended = False
            while (event := await self._queue.get()) is not None:
                if ended and isinstance(event, events.Spent):
                    continue  # booked by a thread of an interrupted tool; the next turn begins with it
                ended = isinstance(event, events.Answered | events.Interrupted | events.Failed)
                self._note(event)
                yield event
        finally:
            if not self._work.done():
                self.interrupt()
                await asyncio.wait([self._work])
            self._work, self.busy = None, False

    def goes_on(self, last: events.ConversationEvent | None) -> bool:
        """Return whether queued messages are sent after a turn that ended with this event."""
        return not isinstance(last, events.Interrupted | events.Failed)

    def steer(self, text: str) -> bool:
        """Give the model a message before its next step; return False if no turn of the model is running."""
        return False

    def interrupt(self) -> None:
        """End the turn at once and keep what was done."""
        if self._work is None or self._work.done():
            return
        self._interrupted = True
        for question in self._questions.values():
            if not question.done():
                question.cancel()
        self._stop(self._work)

    def answer(self, call: str, reply: events.ApprovalReply, why: str = "") -> None:
        """Answer an `ApprovalAsked`; `always` asks no more as long as the budget lasts."""
        question = self._questions.get(call)
        if question is not None and not question.done():
            question.set_result(events.ApprovalGiven(call, reply, why))

    def close(self) -> None:
        """End all that still runs, and the record."""

    def emit(self, event: events.ConversationEvent) -> None:
        """Put an event on the stream of the turn; may be called from any thread.

        A call took the seconds in which it did not wait for the user.
        """
        if isinstance(event, events.ToolReturned) and event.call in self._asked_s:
            event = replace(event, seconds=max(0.0, event.seconds - self._asked_s.pop(event.call)))
        if self._loop is not None and self.busy:
            # Waking the loop takes longer than all else here: thousands of events come from its own thread.
            own = threading.get_ident() == self._thread
            (self._loop.call_soon if own else self._loop.call_soon_threadsafe)(self._put, event)

    def _put(self, event: events.ConversationEvent | None) -> None:
        """Queue an event; a piece of text waits for those that follow at once."""
        if self._pieces and type(event) is not type(self._pieces[0]):
            self._put_pieces()
        if isinstance(event, events.TextDelta | events.ThoughtDelta):
            if not self._pieces:
                asyncio.get_running_loop().call_later(GATHER_S, self._put_pieces)
            self._pieces.append(event)
        else:
            self._queue.put_nowait(event)

    def _put_pieces(self) -> None:
        if self._pieces:
            self._queue.put_nowait(replace(self._pieces[0], text="".join(piece.text for piece in self._pieces)))
            self._pieces.clear()

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

    async def ask(self, question: events.ApprovalAsked) -> events.ApprovalGiven:
        """Ask the user for approval and wait; an interrupted turn counts as a refusal."""
        if self._interrupted:  # nobody would answer: the questions of the turn were cancelled before this one came
            return events.ApprovalGiven(question.call, "no", "interrupted")
        future = self._questions[question.call] = asyncio.get_running_loop().create_future()
        self.emit(question)
        began = time.perf_counter()
        try:
            given = await future
        except asyncio.CancelledError:
            given = events.ApprovalGiven(question.call, "no", "interrupted")
        finally:
            self._questions.pop(question.call, None)
            self._asked_s[question.call] += time.perf_counter() - began
        self.emit(given)
        if given.reply == "always" and not question.once and self.settings.approval == "each":
            self.change("budget", approval="budget")
        return given

    async def allow(self, question: events.ApprovalAsked, refused: str, hint: str) -> None:
        """Ask the user for approval; raises `UsageError` for a no, which says what was `refused`."""
        if refusal := (await self.ask(question)).refusal:
            raise UsageError(f"{refused}: {refusal}", hint=hint)

    def change(self, shown: str, **values: Any) -> None:
        """Replace settings, and emit `SettingChanged` with the first one's name and `shown` as its value."""
        self.settings = replace(self.settings, **values)
        self.emit(events.SettingChanged(next(iter(values)), shown))

    async def compact(self) -> None:
        """Replace the model's memory by its own summary of the conversation; raises `UsageError` without one."""
        raise NotImplementedError

    async def resume(self, conversation: str) -> None:
        """Continue another conversation in place of this one, by its id or a unique beginning of it."""
        raise NotImplementedError

    async def _run(self, text: str) -> None:
        raise NotImplementedError

    def _stop(self, work: asyncio.Task[None]) -> None:
        work.cancel()

    def _note(self, event: events.ConversationEvent) -> None:
        self.candidates.apply(event)
