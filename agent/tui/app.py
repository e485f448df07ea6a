"""The terminal agent: a conversation with its candidates, their text and plots beside it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widgets import Static

from forewarp.agent.base import BaseConversation
from forewarp.agent.events import ApprovalAsked, ApprovalGiven, Event, SettingChanged, Spent, UserSaid
from forewarp.agent.replay import Replay
from forewarp.agent.tui import look
from forewarp.agent.tui.approval import Approvals
from forewarp.agent.tui.candidates import CandidatesPane
from forewarp.agent.tui.chat import Chat
from forewarp.agent.tui.history import History
from forewarp.agent.tui.printable import Printable
from forewarp.agent.tui.prompt import Prompt
from forewarp.agent.tui.status import StatusLine, lines_waiting, what_goes_on
from forewarp.agent.tui.turns import Turns
from forewarp.agent.tui.views import KEYS, VIEWS, WIDE, Names, Panes, View, Views
from forewarp.agent.tui.welcome import REPLAYED, welcome
from forewarp.agent.tui.wording import seconds
from forewarp.core.untrusted_text import printable
from forewarp.tools.steps import CandidateForecast, CandidateMeasured

LONG_TURN_S = 10.0
"""Seconds after which a turn announces its end and its questions."""

AGAIN_S = 3.0
"""Seconds within which a second ctrl+c leaves."""


class ForewarpApp(App[int]):
    """The terminal application. `earlier` are the events of a conversation that is resumed."""

    TITLE = "forewarp"
    CSS_PATH = "forewarp.tcss"
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012
        (0, "-narrow"),
        (WIDE, "-wide"),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "interrupt", "Interrupt", priority=True, show=False),
        Binding("ctrl+c", "clear_or_leave", "Clear; twice: leave", priority=True, show=False),
        Binding("ctrl+y", "copy", "Copy", priority=True, show=False),
        Binding("ctrl+o", "unfold", "Unfold tool calls", priority=True, show=False),
        Binding("ctrl+t", "turn", "Next pane", priority=True, show=False),
        *(
            Binding(f"{KEYS[view]},ctrl+{n}", f"view('{view}')", view.capitalize(), priority=True, show=False)
            for n, view in enumerate(VIEWS, 1)
        ),
    ]

    def __init__(
        self,
        talk: BaseConversation,
        *,
        earlier: Sequence[Event] = (),
        first: str = "",
        theme: str | None = None,
        history: History | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.talk = talk
        self._earlier, self._first_words, self._clock = earlier, first, clock
        self._history = history or History()
        self._turns = Turns(talk, self._take, clock)
        self._armed = float("-inf")
        self._printable = Printable()
        for each in look.THEMES:
            self.register_theme(each)
        self.theme = look.named(theme or "dark", self.available_themes) or look.DARK.name

    def compose(self) -> ComposeResult:
        """Yield everything from top to bottom."""
        folder = self.talk.settings.folder
        chat, panes = Chat(clock=self._clock, id="chat"), Panes(self.talk.settings.place, id="panes")
        yield Views(f"forewarp  {folder.name or folder}", chat, panes, id="views")
        yield Static(id="waiting", markup=False)
        yield Approvals(id="approvals")
        yield Prompt(folder, self._history, placeholder="Ask, /command, @file", id="prompt")
        yield StatusLine(clock=self._clock, id="status")

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters that every line of every widget passes on its way to the terminal."""
        return [*super().get_line_filters(), self._printable]

    def copy_to_clipboard(self, text: str) -> None:
        """Copy printable text: what is copied is pasted into other terminals."""
        super().copy_to_clipboard(printable(text))

    def on_mount(self) -> None:
        """Show the conversation so far, then send the first message if one was given."""
        self.theme_changed_signal.subscribe(self, lambda _: self._chat.recolour())
        self.query_one("#waiting").display = False
        self._prompt.typing.focus()
        self._panes.load(self.talk.candidates)
        if isinstance(self.talk, Replay):
            self._status.state.label = "REPLAY"
            self._chat.note(REPLAYED)
            for text in self.talk.prompts:
                self._send(text)
        elif self._earlier:
            self._status.state.label = "resumed"
            self._chat.open(self._earlier)
        else:
            self._chat.note(welcome(self.talk.settings))
        self._tell()
        if self._first_words:
            self._send(self._first_words)

    async def on_unmount(self) -> None:
        """End the turn and all processes of the conversation."""
        self.talk.interrupt()
        self.talk.close()

    @property
    def _chat(self) -> Chat:
        return self.query_one(Chat)

    @property
    def _views(self) -> Views:
        return self.query_one(Views)

    @property
    def _panes(self) -> Panes:
        return self.query_one(Panes)

    @property
    def _prompt(self) -> Prompt:
        return self.query_one(Prompt)

    @property
    def _status(self) -> StatusLine:
        return self.query_one(StatusLine)

    @property
    def _approvals(self) -> Approvals:
        return self.query_one(Approvals)

    # Events of the conversation

    def _take(self, event: Event) -> None:
        """Show an event."""
        self._chat.take(event)
        match event:
            case CandidateForecast() | CandidateMeasured():
                self._panes.take(self.talk.candidates, event)
                if isinstance(event, CandidateForecast):
                    self._status.state.device = event.device
            case ApprovalAsked():
                self._approvals.ask(event)
                self.set_timer(Approvals.GRACE_S, self._offer_keys)
                if self._turns.took > LONG_TURN_S:
                    self._announce(f"{event.tool} waits for your approval")
            case ApprovalGiven():
                self._approvals.settle(event.call)
            case Spent() | SettingChanged() | UserSaid():
                self._tell()
            case _:
                pass
        self._doing()

    def _announce(self, text: str) -> None:
        self.bell()
        self.notify(text, timeout=8, markup=False)

    def _offer_keys(self) -> None:
        """Give a question the keys, unless something is being typed."""
        if self._approvals.current is not None and not self._prompt.text:
            self._approvals.focus()

    # Input of the user

    @on(Prompt.Sent)
    def _sent(self, message: Prompt.Sent) -> None:
        name, _, rest = message.text.strip().partition(" ")
        own: dict[str, Callable[[str], None]] = {
            "/theme": self._change_theme,
            "/copy": lambda _: self.action_copy(),
            "/clear": lambda _: self._clear(),
            "/quit": lambda _: self._leave(),
        }
        if name in own:
            own[name](rest.strip())
        else:
            self._send(message.text.strip())
        self._offer_keys()

    def _send(self, text: str) -> None:
        if self._turns.send(text):
            self._run()
        self._chat.action_latest()
        self._tell()

    @work(group="turn")
    async def _run(self) -> None:
        well = await self._turns.run()
        self._approvals.clear()
        if not well:
            self._recall()
        if self._turns.took > LONG_TURN_S:
            self._announce(f"{'done' if well else 'ended'} after {seconds(self._turns.took)}")
        if self.focused is None or not self.focused.display:
            self._prompt.typing.focus()
        self._tell()

    @on(Prompt.Recall)
    def _recall(self) -> None:
        """Put queued messages back into the prompt."""
        waiting = self._turns.recall()
        if waiting:
            self._prompt.fill("\n".join(part for part in (waiting, self._prompt.text) if part))
        self._tell()

    @on(Approvals.Replied)
    def _replied(self, message: Approvals.Replied) -> None:
        self.talk.answer(message.call, message.reply, message.why)
        if self._approvals.current is None:
            self._prompt.typing.focus()

    @on(Approvals.Typed)
    def _typed(self, message: Approvals.Typed) -> None:
        self._prompt.typing.focus()
        self._prompt.typing.insert(message.character)

    # Status

    def _tell(self) -> None:
        """Update the lines around the prompt."""
        waiting = self._turns.waiting
        shown = self.query_one("#waiting", Static)
        shown.display = bool(waiting)
        shown.update(lines_waiting(self._turns.steering, self._turns.queue))
        self._prompt.typing.holding = bool(self._turns.queue)
        self._status.state.queued = len(waiting)
        self._doing()
        self._status.show(self.talk.settings, self.talk.spent)

    def _doing(self) -> None:
        state = self._status.state
        state.since = self._turns.began
        asking = self._approvals.current is not None
        doing = what_goes_on(self._chat.fold, asking=asking) if self._turns.running else ""
        if doing != state.doing:
            state.doing = doing
            self._status.redraw()

    @on(Chat.Behind)
    def _behind(self, message: Chat.Behind) -> None:
        self._status.state.behind = message.behind
        self._status.redraw()

    # Views

    def action_view(self, view: View) -> None:
        """Show a pane, or the chat."""
        self._views.show(view)
        if view == "chat":
            self._prompt.typing.focus()

    def action_turn(self) -> None:
        """Show the next pane."""
        self.action_view(self._views.next)

    @on(Names.Clicked)
    def _named(self, message: Names.Clicked) -> None:
        self.action_view(message.view)

    @on(CandidatesPane.Selected)
    def _chosen(self) -> None:
        self.action_view("source")

    @on(Prompt.Scroll)
    async def _scroll(self, message: Prompt.Scroll) -> None:
        await self._chat.go(message.key)

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Esc and ctrl+c to the palette while it is open."""
        if action in ("interrupt", "clear_or_leave", "turn", "view", "unfold") and len(self.screen_stack) > 1:
            return False
        return super().check_action(action, parameters)

    def action_interrupt(self) -> None:
        """End the turn at once; without one, close what is open or go back to the prompt."""
        completing = self._prompt.completing
        self._prompt.close()
        if self._turns.running:
            self._approvals.clear()
            self.talk.interrupt()
        elif not completing:
            self.action_view("chat")

    def action_clear_or_leave(self) -> None:
        """Copy what is selected, or clear the prompt; twice in a row, leave."""
        selected = self.screen.get_selected_text() or self._prompt.typing.selected_text
        if selected:
            self.copy_to_clipboard(selected)
            self.notify("copied", timeout=2)
            return
        if self._clock() - self._armed < AGAIN_S:
            self._leave()
            return
        self._armed = self._clock()
        self._prompt.fill("")
        self._status.state.message = "ctrl+c again leaves"
        self._status.redraw()
        self.set_timer(AGAIN_S, self._disarm)

    def _disarm(self) -> None:
        self._status.state.message = ""
        self._status.redraw()

    @on(Prompt.Leave)
    def _leave(self) -> None:
        self.talk.interrupt()
        self.exit(0)

    async def action_quit(self) -> None:
        """Leave."""
        self._leave()

    def action_copy(self) -> None:
        """Copy the chosen candidate's text where a pane is in sight, else the latest answer."""
        chosen = self._views.text
        text = chosen or self._chat.fold.last_answer
        if text:
            self.copy_to_clipboard(text)
            what = "the candidate's text" if chosen else "the latest answer"
            self.notify(f"copied {what}, {len(text.splitlines())} lines", timeout=2)
        else:
            self.notify("there is nothing to copy yet", severity="warning", timeout=2)

    def action_unfold(self) -> None:
        """Unfold all tool calls, or fold them."""
        self._chat.toggle()

    def _change_theme(self, name: str) -> None:
        known = look.named(name, self.available_themes)
        if not name:
            self.search_themes()
        elif known is None:
            self._chat.note(f"there is no theme {name}", failed=True, hint=", ".join(sorted(self.available_themes)))
        else:
            self.theme = known

    def _clear(self) -> None:
        self._chat.clear()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Yield what the palette offers."""
        yield SystemCommand("Theme", "Change the colours", self.search_themes)
        yield SystemCommand("Copy", "Copy the latest answer, or the chosen candidate's text", self.action_copy)
        yield SystemCommand("Unfold", "Unfold all tool calls, or fold them", self.action_unfold)
        for view in VIEWS:
            yield SystemCommand(view.capitalize(), f"Show this pane ({KEYS[view].upper()})", _call(self, view))
        yield SystemCommand("Keys", "Show the keys of what has the focus", self.action_show_help_panel)
        yield SystemCommand("Quit", "Leave; the conversation can be resumed", self._leave)


def _call(app: ForewarpApp, view: View) -> Callable[[], None]:
    return lambda: app.action_view(view)


def run(
    conversation: BaseConversation,
    *,
    mouse: bool = True,
    theme: str | None = None,
    first: str = "",
    earlier: Sequence[Event] = (),
) -> int:
    """Open the terminal agent and return its exit code once the user leaves.

    `first` is sent at once. `earlier` are the events of a conversation that is resumed.
    """

    def prompts() -> Path:
        from forewarp.agent.transcript import home

        return home(conversation.settings.place) / "prompts.jsonl"

    app = ForewarpApp(conversation, earlier=earlier, first=first, theme=theme, history=History(prompts))
    code = app.run(mouse=mouse)
    return code if code is not None else app.return_code or 0
