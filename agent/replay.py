"""A recorded conversation played again: no model, no device, the same events at their pace."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from forewarp.agent import events
from forewarp.agent.base import BaseConversation
from forewarp.agent.settings import Settings
from forewarp.tools.parts import Place
from forewarp.tools.steps import CandidateForecast, CandidateMeasured

WORDS_PER_S = 30.0
"""Words per second at which text is shown; the record does not have the time of each word."""

LONGEST_S = 3.0
"""Longest pause in seconds; longer waits of the record are cut to this."""

_WORD = re.compile(r"\S*\s*")


class Replay(BaseConversation):
    """Plays recorded turns in order, whatever the user types. `speed` divides all waits; infinity plays without any."""

    def __init__(
        self,
        recorded: Sequence[events.ConversationEvent],
        *,
        speed: float = 1.0,
        folder: Path | None = None,
        id: str = "",
    ) -> None:
        super().__init__(Settings(place=Place(device="replay"), folder=folder or Path.cwd()))
        self._id, self._speed = id, speed
        self._turns = turns(recorded)

    @property
    def id(self) -> str:
        return self._id

    @property
    def prompts(self) -> list[str]:
        """User's messages of the turns that are still to be played."""
        return [t[0].text for t in self._turns if isinstance(t[0], events.UserSaid)]

    def goes_on(self, last: events.ConversationEvent | None) -> bool:
        """Return True unless the user stopped it: recorded failures and interruptions are part of what is played."""
        return not self._interrupted

    async def _run(self, text: str) -> None:
        """Play the next turn; `text` is shown only once the recording has ended."""
        ended: list[events.ConversationEvent] = [
            events.UserSaid(text),
            events.Noted("This is a replay, and it has ended."),
            events.Answered(""),
        ]
        turn = self._turns.pop(0) if self._turns else ended
        try:
            for event in turn:
                # A record holds a second's text in one event.
                words = _WORD.findall(event.text) if isinstance(event, events.TextDelta | events.ThoughtDelta) else ()
                for each in [replace(event, text=word) for word in words if word] or [event]:
                    if self._speed < float("inf"):
                        await asyncio.sleep(_pause(each) / self._speed)
                    self.emit(each)
            if not isinstance(turn[-1], events.Answered | events.Interrupted | events.Failed):
                self.emit(events.Interrupted("the recording, which ends here"))
        except asyncio.CancelledError:
            self.emit(events.Interrupted("the replay, and the rest of this turn is left out"))

    def _note(self, event: events.ConversationEvent) -> None:
        super()._note(event)
        if isinstance(event, events.Spent):
            self._spent = event


def turns(recorded: Sequence[events.ConversationEvent]) -> list[list[events.ConversationEvent]]:
    """Split events into turns; steering messages belong to theirs, and changes of settings are left out."""
    found: list[list[events.ConversationEvent]] = []
    for event in recorded:
        if isinstance(event, events.UserSaid) and not event.steering:
            found.append([event])
        elif found and not isinstance(event, events.SettingChanged):
            is_over = isinstance(found[-1][-1], events.Answered | events.Interrupted | events.Failed)
            found[-1].insert(len(found[-1]) - is_over, event)  # spending is booked late
    return found


def _pause(event: events.ConversationEvent) -> float:
    match event:
        case events.TextDelta() | events.ThoughtDelta():
            return 1 / WORDS_PER_S
        case events.ToolReturned():
            return min(event.seconds / 2, LONGEST_S)
        case CandidateMeasured():
            return min(event.device_s, LONGEST_S) or 0.1
        case events.Retrying():
            return min(event.wait_s, LONGEST_S)
        case events.ApprovalAsked() | events.ApprovalGiven():
            return 1.0
        case events.Progressed() | CandidateForecast():
            return 0.05
        case _:
            return 0.0
