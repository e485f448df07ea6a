"""Approval questions above the prompt: the command, the reason, and the text that would be written."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message
from textual.widgets import Input, Static

from forewarp.agent.events import ApprovalAsked, ApprovalReply
from forewarp.agent.tui.markdown import coloured
from forewarp.agent.tui.printable import TextPart, assemble
from forewarp.core.untrusted_text import UNREADABLE, one_line, printable


class Approvals(Vertical, can_focus=True):
    """The questions that wait for an answer, one at a time."""

    GRACE_S: ClassVar[float] = 0.4
    """Seconds in which keys still go to the prompt once a question shows: the user may be typing just then."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "reply('yes')", "Yes"),
        Binding("a", "reply('always')", "Always"),
        Binding("n", "refuse", "No"),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("pageup", "move(-8)", show=False),
        Binding("pagedown", "move(8)", show=False),
    ]

    @dataclass
    class Replied(Message):
        """The user answered."""

        call: str
        reply: ApprovalReply
        why: str

    @dataclass
    class Typed(Message):
        """The user types something that is no answer."""

        character: str

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._questions: deque[ApprovalAsked] = deque()
        self._typing = False

    def compose(self) -> ComposeResult:
        self._question, self._diff = Static(markup=False), Static(markup=False)
        self._text = VerticalScroll(self._diff, id="approval-text", can_focus=False)
        self._why = Input(placeholder="why not? (optional; Enter)", compact=True)
        yield from (self._question, self._text, self._why)

    def on_mount(self) -> None:
        self._show()

    @property
    def current(self) -> ApprovalAsked | None:
        return self._questions[0] if self._questions else None

    def ask(self, question: ApprovalAsked) -> None:
        self._questions.append(question)
        self._show()

    def settle(self, call: str | None = None) -> None:
        """Take a question away that was answered, or all of them: the turn is over."""
        self._questions = deque(q for q in self._questions if call is not None and q.call != call)
        self._show()

    def on_resize(self) -> None:
        """Keep the question in sight above the text that would be written, however low the terminal is."""
        self._text.styles.max_height = max(2, self.app.size.height // 2 - 4)

    def action_reply(self, reply: ApprovalReply) -> None:
        """Answer the question that is shown; `always` is no answer to one that is asked each time."""
        if reply != "always" or (self.current is not None and not self.current.once):
            self._answer(reply)

    def action_refuse(self) -> None:
        self._why.display = True
        self._why.focus()

    def action_move(self, lines: int) -> None:
        self._text.scroll_relative(y=lines, animate=False)

    def on_focus(self) -> None:
        self._typing = False

    def on_key(self, event: events.Key) -> None:
        """Hand on what is typed to the prompt; after its first letter, what would be an answer is typed, too."""
        if event.is_printable and event.character and (self._typing or event.key not in "yan"):
            event.stop()
            self._typing = True
            self.post_message(self.Typed(event.character))

    @on(Input.Submitted)
    def _submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self._answer("no", message.value.strip())

    def _answer(self, reply: ApprovalReply, why: str = "") -> None:
        question = self.current
        if question is not None:
            self.settle(question.call)
            self.post_message(self.Replied(question.call, reply, why))

    def _show(self) -> None:
        question = self.current
        self.display = question is not None
        self._why.display, self._why.value = False, ""
        if question is None:
            return
        if self._why.has_focus:
            self.focus()
        # Hidden characters must not be approved unseen, so control characters are marked.
        command, reason = one_line(question.command, UNREADABLE), one_line(question.reason, UNREADABLE)
        parts: list[TextPart] = [(f"Allow {question.tool}?", "bold")]
        parts.append((f"  1 of {len(self._questions)}" if len(self._questions) > 1 else "", "dim"))
        parts += ["   ", ("y", "bold $text-success"), (" yes  ", "dim")]
        parts += [] if question.once else [("a", "bold $text-success"), (" always in budget  ", "dim")]
        parts += [("n", "bold $text-error"), (" no", "dim")]
        parts += [f"\n{command}" if command else "", (f"\n{reason}" if reason else "", "dim")]
        self._question.update(assemble(*parts))
        self._text.display = bool(question.text)
        self._diff.update(coloured(printable(question.text, UNREADABLE)))
        self.on_resize()
