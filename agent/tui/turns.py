"""Turns, one after the other, and the queue of messages; knows nothing of the screen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from forewarp.agent.base import BaseConversation
from forewarp.agent.events import Event, Failed, Interrupted, UserSaid


class Turns:
    """Sends the user's messages to a conversation, in order. `took` is how long the turn takes so far, in seconds."""

    def __init__(
        self, talk: BaseConversation, take: Callable[[Event], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.queue: list[str] = []
        self.steering: list[str] = []
        """Messages handed to the model that have not reached it yet."""
        self.running = False
        self.began = 0.0
        self._talk, self._take, self._clock = talk, take, clock

    @property
    def waiting(self) -> list[str]:
        """Messages sent that have not arrived, the oldest first."""
        return [*self.steering, *self.queue]

    @property
    def took(self) -> float:
        """Seconds since the turn began."""
        return self._clock() - self.began

    def send(self, text: str) -> bool:
        """Take a message; returns whether `run` is to be called for it, since nothing runs."""
        if self.running and not text.startswith(("/", "!")) and not self.queue and self._talk.steer(text):
            self.steering.append(text)
            return False
        self.queue.append(text)
        start = not self.running
        if start:
            self.running, self.began = True, self._clock()
        return start

    def recall(self) -> str:
        """Return the queued messages and empty the queue; messages already handed to the model stay with it."""
        text = "\n".join(self.queue)
        self.queue.clear()
        return text

    async def run(self) -> bool:
        """Run turns until the queue is empty, or one of them did not end well; returns whether all did."""
        try:
            while self.queue:
                if not await self._turn(self.queue.pop(0)):
                    return False
        finally:
            self.running = False
        return True

    async def _turn(self, text: str) -> bool:
        self.began = self._clock()
        last: Event | None = None
        try:
            async for last in self._talk.say(text):
                if isinstance(last, UserSaid) and last.steering and last.text in self.steering:
                    self.steering.remove(last.text)
                self._take(last)
                # Events that come at once leave room for keys and drawing between them.
                await asyncio.sleep(0)
        except Exception as e:
            last = Failed("internal", f"{type(e).__name__}: {e}", hint="this is a defect of forewarp; the chat goes on")
            self._take(last)
        # Steering messages that came too late for the model are sent as the next turn.
        self.queue[:0] = self.steering
        self.steering.clear()
        return not isinstance(last, Interrupted | Failed)
