"""Items that the chat shows, as data built from the events of a conversation."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from forewarp.agent.events import (
    Answered,
    ApprovalAsked,
    ApprovalGiven,
    Compacted,
    Event,
    Failed,
    Interrupted,
    Noted,
    Progressed,
    TextDelta,
    ToolCalled,
    ToolReturned,
    UserSaid,
)
from forewarp.tools.steps import CandidateForecast, CandidateMeasured


@dataclass(slots=True, eq=False)
class Said:
    """The user's words."""

    text: str
    steering: bool = False
    expanded: bool = False


@dataclass(slots=True, eq=False)
class AnswerItem:
    """The model's words between two tool calls; `done` once no more come."""

    text: str
    done: bool = False


@dataclass(slots=True, eq=False)
class ToolCallItem:
    """A tool call. `state` is waiting where it needs approval; `began` is by the fold's clock, in seconds."""

    call: str
    tool: str
    arguments: Mapping[str, Any]
    began: float
    state: Literal["running", "waiting", "done", "failed", "stopped"] = "running"
    progress: str = ""
    approval: str = ""
    summary: str = ""
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 0.0
    expanded: bool = False


@dataclass(slots=True, eq=False)
class MeasuredItem:
    """Candidates measured one after the other, each with its forecast."""

    rows: list[tuple[CandidateForecast | None, CandidateMeasured]] = field(
        default_factory=list[tuple[CandidateForecast | None, CandidateMeasured]]
    )


@dataclass(slots=True, eq=False)
class Note:
    """Message of forewarp's own. `text` and `hint` are Markdown only where `tone` is note or compacted."""

    text: str
    tone: Literal["note", "failed", "interrupted", "compacted"] = "note"
    hint: str = ""


@dataclass(slots=True, eq=False)
class Closing:
    """Time, tokens and price of a turn."""

    answered: Answered


Item = Said | AnswerItem | ToolCallItem | MeasuredItem | Note | Closing


class Fold:
    """Items in the order of the conversation; `apply` handles an event and returns the items that it changed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.items: list[Item] = []
        self.running: dict[str, ToolCallItem] = {}
        self._clock = clock
        self._forecast: dict[tuple[str, str], CandidateForecast] = {}

    @property
    def last_answer(self) -> str:
        """The latest words of the model, or of forewarp where there are none."""
        answers = (i.text for i in reversed(self.items) if isinstance(i, AnswerItem) and i.text.strip())
        notes = (i.text for i in reversed(self.items) if isinstance(i, Note))
        return next(answers, None) or next(notes, "")

    def add(self, item: Item) -> list[Item]:
        """Append an item that stands for no event."""
        ended = self._end_answer()
        self.items.append(item)
        return [*ended, item]

    def apply(self, event: Event) -> list[Item]:
        """Update the items from an event; return those that are new or changed."""
        match event:
            case UserSaid():
                return self.add(Said(event.text, event.steering))
            case TextDelta():
                return self._write(event.text)
            case ToolCalled():
                call = self.running[event.call] = ToolCallItem(event.call, event.tool, event.arguments, self._clock())
                return self.add(call)
            case Progressed() | ApprovalAsked() | ApprovalGiven() | ToolReturned():
                return self._in_call(event)
            case CandidateForecast():
                self._forecast[event.task, event.kernel] = event
                return []
            case CandidateMeasured():
                return self._measured(event)
            case Noted():
                return self.add(Note(event.text))
            case Compacted():
                return self.add(Note(event.text, "compacted"))
            case Failed():
                return self._end(Note(event.message, "failed", event.hint))
            case Interrupted():
                return self._end(Note(event.during, "interrupted"))
            case Answered():
                told = bool(event.input_tokens or event.output_tokens)
                return self._end(Closing(event) if told else None)
            case _:
                return []

    def _write(self, text: str) -> list[Item]:
        last = self.items[-1] if self.items else None
        if isinstance(last, AnswerItem) and not last.done:
            last.text += text
            return [last]
        # Some models send line ends before their first tool call.
        return self.add(AnswerItem(text)) if text.strip() else []

    def _end_answer(self) -> list[Item]:
        last = self.items[-1] if self.items else None
        if isinstance(last, AnswerItem) and not last.done:
            last.done = True
            return [last]
        return []

    def _in_call(self, event: Progressed | ApprovalAsked | ApprovalGiven | ToolReturned) -> list[Item]:
        call = self.running.get(event.call)
        if call is None:
            return []
        match event:
            case Progressed():
                call.progress = event.text
            case ApprovalAsked():
                call.state = "waiting"
            case ApprovalGiven():
                call.state = "running"
                call.approval = f"{event.reply}: {event.why}" if event.why else event.reply
            case ToolReturned():
                call.state = "failed" if "error" in event.result else "done"
                call.summary, call.result, call.seconds = event.summary, event.result, event.seconds
                del self.running[event.call]
        return [call]

    def _measured(self, event: CandidateMeasured) -> list[Item]:
        last = self.items[-1] if self.items else None
        row = (self._forecast.get((event.task, event.kernel)), event)
        if isinstance(last, MeasuredItem):
            last.rows.append(row)
            return [last]
        return self.add(MeasuredItem([row]))

    def _end(self, item: Item | None) -> list[Item]:
        """End a turn: mark tool calls that are still running as stopped, then add `item`."""
        stopped = list(self.running.values())
        for call in stopped:
            call.state, call.seconds = "stopped", self._clock() - call.began
        self.running.clear()
        added = self.add(item) if item is not None else self._end_answer()
        return [*stopped, *added]
