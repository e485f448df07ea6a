"""Items of the chat: built from the events of a conversation, each drawn as text or as Markdown."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from textual.content import Content

from forewarp.agent import events
from forewarp.agent.candidates import Candidates, ListedCandidate
from forewarp.agent.tui import wording
from forewarp.agent.tui.printable import TextPart, assemble, styled
from forewarp.core.untrusted_text import clip
from forewarp.tools.parts import shown
from forewarp.tools.steps import CandidateMeasured
from forewarp.tools.wording import counted, dollars

SHOWN_LINES = 8
"""Lines of a long message, and rows of measured candidates, that are shown at once."""

LABEL = 20
"""Characters for what a measured candidate is; its intervals are left out rather than that."""

LONGEST_TEXT = 8_000
"""Characters of an error, a result or a progress message that are shown; of a longer one, its head and its tail are."""

PART, LONGEST_PART = 4_000, 16_000
"""Characters of an answer after which its next paragraph becomes an item of its own, and its next line does: an item
that grows is parsed and laid out anew each time."""

MOST_LINES = 120
"""Lines outside of programs and tables after which an answer's next line becomes an item of its own, however short they
are: each may be a block, and so a widget, and a thousand of them stop the screen for half a minute."""

THOUGHT_LINES = 3
"""Latest lines of thinking that are shown while it comes."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_GLUE = "\ue000"  # of private use, so that no text has it
_BODY_LINES = 400
_SHORT = 60
_PATHS = ("task", "path", "kernel", "command", "query", "pattern")
_MARKS = {
    "running": ("● ", "$text-accent"),
    "waiting": ("? ", "$text-warning"),
    "done": ("● ", "$text-success"),
    "failed": ("✗ ", "$text-error"),
    "stopped": ("■ ", "dim"),
}


@dataclass(slots=True, eq=False)
class Item:
    """One item. `expanded` ones are shown in full, if they are `foldable`; `classes` are those of its widget."""

    foldable: ClassVar[bool] = False
    classes: str = field(default="", kw_only=True)
    expanded: bool = field(default=False, kw_only=True)

    def draw(self, width: int, now: float) -> Content:
        """Return the text to show in so many columns; `now` is by the clock of the chat, in seconds."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class UserItem(Item):
    """The user's words; long ones are folded."""

    classes: str = field(default="user", kw_only=True)
    foldable: ClassVar[bool] = True
    text: str
    steering: bool = False

    def draw(self, width: int, now: float) -> Content:
        lines = self.text.splitlines() or [""]
        folded = len(lines) > SHOWN_LINES and not self.expanded
        more = f"\n… {len(lines) - SHOWN_LINES + 2} more lines" if folded else ""
        steering = "  steering" if self.steering else ""
        text = "\n".join(lines[: SHOWN_LINES - 2] if folded else lines)
        return assemble(text, (more, "dim"), (steering, "$text-warning"))


@dataclass(slots=True, eq=False)
class MarkdownItem(Item):
    """The model's words between two tool calls, or Markdown of forewarp's own; `done` once no more come.

    `continues` is True where they go on from the item before: long ones are several items.
    """

    classes: str = field(default="answer", kw_only=True)
    text: str
    own: Literal["", "note", "compacted"] = ""
    done: bool = False
    continues: bool = False


@dataclass(slots=True, eq=False)
class ThoughtItem(Item):
    """The model's thinking between two steps: its latest lines while it comes, then a line to unfold."""

    classes: str = field(default="thought", kw_only=True)
    foldable: ClassVar[bool] = True
    text: str
    done: bool = False

    def draw(self, width: int, now: float) -> Content:
        lines = self.text.strip().splitlines()
        if self.expanded:
            return styled("\n".join(lines), "dim italic")
        if self.done:
            return styled(f"thought, {len(self.text.split())} words", "dim italic")
        return styled("\n".join(lines[-THOUGHT_LINES:]), "dim italic")


@dataclass(slots=True, eq=False)
class LineItem(Item):
    """A line that stays as it is: an answer asked for again, the end of a turn by the user, what a turn took."""

    text: str
    style: str

    def draw(self, width: int, now: float) -> Content:
        return styled(self.text, self.style)


@dataclass(slots=True, eq=False)
class CallItem(Item):
    """A tool call. `state` is waiting where it needs approval.

    `began` and `asked` are by the clock of the chat, in seconds; the time in which the user was asked does not count.
    """

    classes: str = field(default="call", kw_only=True)
    foldable: ClassVar[bool] = True
    tool: str
    arguments: Mapping[str, Any]
    began: float
    asked: float | None = None
    state: Literal["running", "waiting", "done", "failed", "stopped"] = "running"
    progress: str = ""
    approval: str = ""
    summary: str = ""
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 0.0

    def took(self, now: float) -> float:
        """Return the seconds that it took so far."""
        return (now if self.asked is None else self.asked) - self.began

    def draw(self, width: int, now: float) -> Content:
        """Return what was called, what it is doing or came to, and all of it when expanded."""
        given = arguments_in_short(self.arguments)
        took = f"  {wording.seconds(self.took(now) if self.state in ('running', 'waiting') else self.seconds)}"
        *before, last = assemble((self.tool, "bold"), (f" {given}" if given else "", "dim")).wrap(max(width - 2, 20))
        fits = last.cell_length + len(took) <= max(width - 2, 20)
        first, *rest = [*before, assemble(last, (took, "dim"))] if fits else [*before, last, styled(took[2:], "dim")]
        parts: list[TextPart] = [_MARKS[self.state], first, *(part for row in rest for part in ("\n  ", row))]
        lines: list[TextPart] = [(f"approval: {self.approval}", "dim")] if self.approval else []
        match self.state:
            case "waiting":
                lines.append(("waits for your approval", "$text-warning"))
            case "running":
                lines.append((clip(self.progress, LONGEST_TEXT), "dim"))
            case "stopped":
                lines.append(("stopped", "dim"))
            case "failed":
                lines.append((clip(self.summary or str(self.result.get("error", "")), LONGEST_TEXT), "$text-error"))
                hint = clip(str(self.result.get("hint") or ""), LONGEST_TEXT)
                lines.append((f"→ {hint}" if hint else "", "dim"))
            case "done":
                lines.append(clip(self.summary, LONGEST_TEXT))
        if self.expanded:
            lines.append((call_in_full(self.arguments, self.result), "dim"))
        for line in map(assemble, lines):
            for row in wrapped(line, max(width - 2, 20)) if line.plain else ():
                parts += ["\n  ", row]
        return assemble(*parts)


@dataclass(slots=True, eq=False)
class MeasuredItem(Item):
    """Candidates measured one after the other, as they were at that time."""

    classes: str = field(default="measured", kw_only=True)
    rows: list[ListedCandidate]

    def draw(self, width: int, now: float) -> Content:
        rows = self.rows[-SHOWN_LINES:]
        forms = [[measured_line(r, words) for r in rows] for words in (2, 1, 0)]
        longest = [max(c.cell_length for c in form) for form in forms]
        words = next((2 - n for n, length in enumerate(longest) if not width or length + LABEL <= width), 0)
        space = width - longest[2 - words] if width else 2 * LABEL
        room = min(space, max(len(r.label) for r in rows) + 1) if space > LABEL // 2 else 0
        digits = max(len(str(r.number)) for r in rows)
        lines = [measured_line(r, words, room and room + digits - len(str(r.number))) for r in rows]
        earlier = len(self.rows) - len(rows)
        more = [styled(f"… {earlier} earlier ones under Candidates (F3)", "dim")] if earlier else []
        return Content("\n").join([*more, *lines])


@dataclass(slots=True, eq=False)
class FailedItem(Item):
    """An error."""

    classes: str = field(default="failed", kw_only=True)
    message: str
    hint: str = ""

    def draw(self, width: int, now: float) -> Content:
        message, hint = clip(self.message, LONGEST_TEXT), clip(self.hint, LONGEST_TEXT)
        return assemble((message, "$text-error"), (f"\n→ {hint}" if hint else "", "dim"))


class Items:
    """Items in the order of the conversation; `apply` handles an event and returns the items that it changed."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.all: list[Item] = []
        self.running: dict[str, CallItem] = {}
        self.clock = clock

    @property
    def last_answer(self) -> str:
        """The latest words of the model, or of forewarp where there are none."""
        texts = [i for i in reversed(self.all) if isinstance(i, MarkdownItem) and i.text.strip()]
        answer = ""
        for item in [i for i in texts if not i.own] or texts:
            answer = item.text + answer
            if not item.continues:
                break
        return answer

    def add(self, item: Item) -> list[Item]:
        ended = self._end_answer()
        self.all.append(item)
        return [*ended, item]

    def apply(self, event: events.ConversationEvent, candidates: Candidates) -> list[Item]:
        """Update the items from an event that `candidates` knows already; return those that are new or changed."""
        match event:
            case events.UserSaid():
                return self.add(UserItem(event.text, event.steering))
            case events.TextDelta():
                return self._write(event.text)
            case events.ThoughtDelta():
                return self._think(event.text)
            case events.Retrying():
                return self.add(LineItem(event.words, "$text-warning", classes="retry"))
            case events.ToolCalled():
                call = self.running[event.call] = CallItem(event.tool, event.arguments, self.clock())
                return self.add(call)
            case events.Progressed() | events.ApprovalAsked() | events.ApprovalGiven() | events.ToolReturned():
                return self._in_call(event)
            case CandidateMeasured():
                row = candidates.of(event)
                return self._measured(copy(row)) if row is not None else []
            case events.Noted():
                return self.add(MarkdownItem(event.text, "note", done=True))
            case events.Compacted():
                return self.add(MarkdownItem(event.text, "compacted", done=True))
            case events.Failed():
                last = self.all[-1] if self.all else None
                if isinstance(last, CallItem) and last.result.get("error") == event.message:
                    last.result = {**last.result, "hint": event.hint}
                    return [last, *self._end(None)]
                return self._end(FailedItem(event.message, event.hint))
            case events.Interrupted():
                during = f" during {event.during}" if event.during else ""
                text = f"interrupted{during}; what was done is kept"
                return self._end(LineItem(text, "$text-warning", classes="interrupted"))
            case events.Answered():
                asked = event.input_tokens or event.output_tokens
                return self._end(LineItem(_cost(event), "dim", classes="cost") if asked else None)
            case _:
                return []

    def _write(self, text: str) -> list[Item]:
        last = self.all[-1] if self.all else None
        if isinstance(last, MarkdownItem) and not last.done:
            last.text += text
            changed: list[Item] = [last]
            while end := part_end(last.text):
                last.text, rest = last.text[:end], last.text[end:]
                last.done, last = True, MarkdownItem(rest, continues=True)
                self.all.append(last)
                changed.append(last)
            return changed
        # Some models send line ends before their first tool call.
        if not text.strip():
            return []
        begun = self.add(MarkdownItem(""))
        return [*begun[:-1], *self._write(text)]

    def _think(self, text: str) -> list[Item]:
        last = self.all[-1] if self.all else None
        if isinstance(last, ThoughtItem) and not last.done:
            last.text += text
            return [last]
        return self.add(ThoughtItem(text)) if text.strip() else []

    def _end_answer(self) -> list[Item]:
        last = self.all[-1] if self.all else None
        if isinstance(last, MarkdownItem | ThoughtItem) and not last.done:
            last.done = True
            return [last]
        return []

    def _in_call(
        self, event: events.Progressed | events.ApprovalAsked | events.ApprovalGiven | events.ToolReturned
    ) -> list[Item]:
        call = self.running.get(event.call)
        if call is None:
            return []
        match event:
            case events.Progressed():
                call.progress = event.text
            case events.ApprovalAsked():
                call.state, call.asked = "waiting", self.clock()
            case events.ApprovalGiven():
                call.began += self.clock() - call.asked if call.asked is not None else 0.0
                call.state, call.asked = "running", None
                call.approval = f"{event.reply}: {event.why}" if event.why else event.reply
            case events.ToolReturned():
                call.state = "failed" if "error" in event.result else "done"
                call.summary, call.result, call.seconds = event.summary, event.result, event.seconds
                del self.running[event.call]
        return [call]

    def _measured(self, row: ListedCandidate) -> list[Item]:
        last = self.all[-1] if self.all else None
        if isinstance(last, MeasuredItem):
            last.rows.append(row)
            return [last]
        return self.add(MeasuredItem([row]))

    def _end(self, item: Item | None) -> list[Item]:
        """End a turn: mark tool calls that are still running as stopped, then add `item`."""
        stopped = list(self.running.values())
        for call in stopped:
            call.state, call.seconds = "stopped", call.took(self.clock())
        self.running.clear()
        return [*stopped, *(self.add(item) if item is not None else self._end_answer())]


def _cost(a: events.Answered) -> str:
    price = "price unknown" if a.dollars is None else dollars(a.dollars)
    tokens = f"{wording.amount(a.input_tokens)} in, {wording.amount(a.output_tokens)} out"
    return f"{wording.seconds(a.seconds)} · {tokens} · {price}"


def part_end(text: str) -> int:
    """Return where a long answer is parted: before a paragraph, in a very long one after a line or word; else 0.

    Programs, and what is indented, stay whole.
    """
    if len(text) <= PART and text.count("\n") <= MOST_LINES:
        return 0
    place, start, fence, blank, outside = 0, 0, "", False, 0
    for line in text.splitlines(keepends=True):
        if place >= PART and blank and not fence and not line[0].isspace():
            return place
        mark, blank, place = _FENCE.match(line), not line.strip(), place + len(line)
        outside += not fence and not line.startswith("|")
        if not fence:
            fence = mark[1] if mark else ""
        elif mark and mark[1].startswith(fence) and mark[1] == line.strip():
            fence, start = "", place
        if not fence and outside > MOST_LINES and place < len(text):
            return place
        if not fence and place - start > LONGEST_PART:
            least, most = start + PART, start + LONGEST_PART
            return text.rfind("\n", least, most) + 1 or text.rfind(" ", least, most) + 1 or most
    return 0


def arguments_in_short(given: Mapping[str, Any]) -> str:
    """Return a call's arguments: what names something by its value, the rest by name, sources by their length."""
    words: list[str] = []
    for name, value in given.items():
        if value is None or value == {} or value == []:
            continue
        if isinstance(value, str) and "\n" in value.strip():
            words.append(f"{name}: {counted(len(value.splitlines()), 'line')}")
        elif name == "tunables" and isinstance(value, Mapping):
            words.append(wording.cut(shown(value), _SHORT))
        elif name in _PATHS:
            words.append(wording.cut(str(value), _SHORT))
        else:
            words.append(f"{name}={wording.cut(value if isinstance(value, str) else json.dumps(value), 40)}")
    return ", ".join(words)


def call_in_full(given: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Return a call and its result in full, up to some hundred lines each."""

    def block(name: str, value: Any) -> str:
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, default=str)
        lines = text.splitlines() or [""]
        if len(lines) > _BODY_LINES:
            lines = [*lines[:_BODY_LINES], f"… {len(lines) - _BODY_LINES} more lines"]
        lines = [clip(line, LONGEST_TEXT) for line in lines]
        return f"{name} {lines[0]}" if len(lines) == 1 else "\n".join([name, *(f"  {line}" for line in lines)])

    parts = [block(f"{name}:", value) for name, value in given.items() if value is not None]
    return "\n".join([*parts, *([block("→", dict(result))] if result else [])])


def wrapped(text: Content, width: int) -> list[Content]:
    """Return a text in rows of so many columns; the sign of per cent stays with its number."""
    glued = Content(re.sub(r"(?<=\d) (?=%)", _GLUE, text.plain), list(text.spans))
    return [Content(row.plain.replace(_GLUE, " "), list(row.spans)) for row in glued.wrap(width)]


def measured_line(row: ListedCandidate, words: int, room: int = 0) -> Content:
    """Return a measured candidate as one line: `words` 2 names the numbers, 1 does not, 0 leaves intervals out.

    `room` are the characters for what the candidate is and a blank.
    """
    f, m = row.expected, row.measured
    assert m is not None

    def number(ratio: float | None, low: float | None, high: float | None) -> str:
        return wording.within(ratio, low, high) if words else wording.times(ratio)

    label = "forecast " if words > 1 else ""
    forecast = label + number(f.median, f.low, f.high) if f.median is not None else "no forecast"
    name = f"{wording.fitting(row.label, room - 1):<{room}}" if room > 1 else ""
    measured = "replayed " if m.provenance == "replay" else "measured " if words > 1 else ""
    parts: list[TextPart] = [(f"#{row.number} ", "bold"), name, (f"{forecast} → {measured}", "dim")]
    if m.speedup is None:
        parts.append((m.verdict, "$text-error"))
        parts.append((f" ({m.status})" if m.status and m.status != m.verdict else "", "dim"))
    else:
        tone = wording.tone(row)
        mark = f"$text-{tone}" if tone not in ("", "dim") else "dim"
        parts += [(number(m.speedup, m.low, m.high), "bold"), " ", (m.verdict, mark)]
    if m.surprise is not None:
        surprising = abs(m.surprise) > wording.SURPRISING
        parts.append(
            (
                f" (off by {wording.sigmas(m.surprise)})" if words else f" ({wording.sigmas(m.surprise)})",
                "$text-warning" if surprising else "dim",
            )
        )
    if not m.trusted:
        parts.append((f" untrusted{': ' if m.flags else ''}{', '.join(m.flags)}", "$text-warning"))
    return assemble(*parts)
