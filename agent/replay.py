"""A recorded conversation played again: no model, no device, the same events at their pace."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

from forewarp.agent.board import Board
from forewarp.agent.events import (
    Answered,
    ApprovalAsked,
    ApprovalGiven,
    Event,
    Failed,
    Interrupted,
    Noted,
    Progressed,
    Reply,
    SettingChanged,
    Spent,
    TextDelta,
    ToolReturned,
    UserSaid,
)
from forewarp.agent.settings import Settings
from forewarp.tools.parts import Place
from forewarp.tools.steps import CandidateForecast, CandidateMeasured

WORDS_PER_S = 30.0
"""Words per second at which text is shown; the record does not have the time of each word."""

LONGEST_S = 3.0
"""Longest pause in seconds; longer waits of the record are cut to this."""

_WORD = re.compile(r"\S*\s*")


class Replay:
    """Plays recorded turns in order, whatever the user types; has the interface of a `Conversation`.

    `speed` divides all waits; infinity plays without any.
    """

    def __init__(
        self, events: Sequence[Event], *, speed: float = 1.0, folder: Path | None = None, id: str = ""
    ) -> None:
        self.settings = Settings(place=Place(device="replay"), folder=folder or Path.cwd())
        self.board = Board()
        self.spent = Spent()
        self.busy = False
        self.id = id
        self._turns = turns(events)
        self._next = 0
        self._speed = speed
        self._interrupted = asyncio.Event()

    @property
    def prompts(self) -> list[str]:
        """User's messages of the turns that are still to be played."""
        return [t[0].text for t in self._turns[self._next :] if isinstance(t[0], UserSaid)]

    async def say(self, text: str) -> AsyncGenerator[Event]:
        """Play the next turn; `text` is shown only once the recording has ended."""
        if self._next >= len(self._turns):
            for event in (UserSaid(text), Noted("This is a replay, and it has ended."), Answered("")):
                yield event
            return
        turn = self._turns[self._next]
        self._next += 1
        self.busy = True
        self._interrupted.clear()
        try:
            for event in _worded(turn):
                if self._speed < float("inf"):
                    await self._wait(_pause(event) / self._speed)
                if self._interrupted.is_set():
                    yield Interrupted("the replay")
                    return
                self.board.apply(event)
                if isinstance(event, Spent):
                    self.spent = event
                yield event
            if not isinstance(turn[-1], Answered | Interrupted | Failed):
                yield Interrupted("the recording, which ends here")
        finally:
            self.busy = False

    async def _wait(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._interrupted.wait(), seconds)
        except TimeoutError:
            return

    def steer(self, text: str) -> bool:
        """Return False: a recorded model cannot be steered."""
        return False

    def interrupt(self) -> None:
        """End the turn that is played; the next one can still be."""
        self._interrupted.set()

    def answer(self, call: str, reply: Reply, why: str = "") -> None:
        """Do nothing: the recorded answer is played."""

    def close(self) -> None:
        """End the replay."""
        self._interrupted.set()


def turns(events: Sequence[Event]) -> list[list[Event]]:
    """Split events into turns; steering messages belong to theirs, and changes of settings are left out."""
    found: list[list[Event]] = []
    for event in events:
        if isinstance(event, UserSaid) and not event.steering:
            found.append([event])
        elif found and not isinstance(event, SettingChanged):
            found[-1].append(event)
    return found


def _worded(turn: Sequence[Event]) -> list[Event]:
    """Break text into words: a record holds a second's worth in one piece."""
    told: list[Event] = []
    for event in turn:
        if isinstance(event, TextDelta):
            told += [TextDelta(piece) for piece in _WORD.findall(event.text) if piece]
        else:
            told.append(event)
    return told


def _pause(event: Event) -> float:
    """Return how long to wait before an event, in seconds."""
    match event:
        case TextDelta():
            return 1 / WORDS_PER_S
        case ToolReturned():
            return min(event.seconds / 2, LONGEST_S)
        case CandidateMeasured():
            return min(event.device_s, LONGEST_S) or 0.1
        case ApprovalAsked() | ApprovalGiven():
            return 1.0
        case Progressed() | CandidateForecast():
            return 0.05
        case _:
            return 0.0
