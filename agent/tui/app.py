"""The terminal agent: a conversation with its candidates, their text and plots beside it."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, Literal, get_args

from textual import on, work
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.events import Resize
from textual.filter import LineFilter
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Static

import forewarp
from forewarp.agent import events
from forewarp.agent.base import BaseConversation
from forewarp.agent.candidates import ListedCandidate
from forewarp.agent.files import files_to_begin_with
from forewarp.agent.replay import LONGEST_S, Replay, turns
from forewarp.agent.settings import Settings
from forewarp.agent.tui import themes
from forewarp.agent.tui.approval import Approvals
from forewarp.agent.tui.candidates import CandidatesPane
from forewarp.agent.tui.chat import Chat
from forewarp.agent.tui.plots import PlotsPane
from forewarp.agent.tui.printable import Printable, assemble
from forewarp.agent.tui.prompt import History, Prompt, PromptBox
from forewarp.agent.tui.source import SourcePane
from forewarp.agent.tui.status import StatusLine, activity, model_name, parts
from forewarp.agent.tui.timers import after
from forewarp.agent.tui.wording import cut, seconds
from forewarp.core.untrusted_text import printable
from forewarp.tools import signals
from forewarp.tools.steps import CandidateForecast, CandidateMeasured
from forewarp.tools.wording import counted

View = Literal["chat", "candidates", "source", "plots"]
VIEWS: tuple[View, ...] = get_args(View)
KEYS: dict[View, str] = {view: f"f{n}" for n, view in enumerate(VIEWS, 2)}

WIDE = 110
"""Columns from which on the panes stand beside the chat."""

FRAME_S = 0.1
"""Seconds within which candidates that change are shown together."""

LONG_TURN_S = 10.0
"""Seconds after which a turn announces its end and its questions."""

AGAIN_S = 3.0
"""Seconds within which a second ctrl+c leaves."""

COPIED_S = 2.0
"""Seconds for which the status line says what was copied."""

WAITING_SHOWN = 3
"""Messages that wait, each in a line above the prompt."""

NO_MODEL = "**No language model is set.** This works without one:"

ADD_MODEL = """To add one, set `ANTHROPIC_API_KEY` or `OPENAI_API_KEY` and type `/model anthropic:NAME` or
`/model openai:NAME`; for a server of your own, `/model openai:NAME --base-url http://127.0.0.1:8000/v1`.
`model = "…"` in `forewarp.toml` keeps it."""

HELP = """`/` lists commands, `@` files. Enter sends, ctrl+j begins a new line, Esc interrupts.
F2 chat, F3 candidates, F4 source, F5 plots; ctrl+o unfolds tool calls, ctrl+y copies, ctrl+p has the rest."""

REPLAYED = f"""**A recorded conversation, played again**: no model is asked, nothing is measured. Waits are cut to
{LONGEST_S:.0f} s, changes of settings left out. Esc stops it, Enter goes on with the turns that come back, to the
end."""

CUT_OFF = """**The record ends within a turn**: the terminal was closed or killed there, and what came after is lost."""


class TurnQueue:
    """Sends the user's messages to a conversation, in order; knows nothing of the screen."""

    def __init__(
        self,
        conversation: BaseConversation,
        take: Callable[[events.ConversationEvent], None],
        clock: Callable[[], float],
    ) -> None:
        self.queued: list[str] = []
        self.steering: list[str] = []
        """Messages handed to the model that have not reached it yet."""
        self.running = False
        self.began = 0.0
        self._conversation, self._take, self._clock = conversation, take, clock

    @property
    def took(self) -> float:
        return self._clock() - self.began

    def send(self, text: str) -> bool:
        """Take a message; returns whether `run` is to be called for it, since nothing runs."""
        steerable = self.running and not text.startswith(("/", "!")) and not self.queued
        if steerable and self._conversation.steer(text):
            self.steering.append(text)
            return False
        self.queued.append(text)
        start = not self.running
        if start:
            self.running, self.began = True, self._clock()
        return start

    def recall(self) -> str:
        """Return the queued messages and empty the queue; messages already handed to the model stay with it."""
        text = "\n".join(self.queued)
        self.queued.clear()
        return text

    async def run(self) -> bool:
        """Run turns until the queue is empty, or one of them did not end well; returns whether all did."""
        try:
            while self.queued:
                if not await self._turn(self.queued.pop(0)):
                    return False
        finally:
            self.running = False
        return True

    async def _turn(self, text: str) -> bool:
        self.began = self._clock()
        last: events.ConversationEvent | None = None
        try:
            async for last in self._conversation.say(text):
                if isinstance(last, events.UserSaid) and last.steering and last.text in self.steering:
                    self.steering.remove(last.text)
                self._take(last)
                # Events that come at once leave room for keys and drawing between them.
                await asyncio.sleep(0)
        except Exception as e:
            last = events.Failed(
                "internal", f"{type(e).__name__}: {e}", hint="this is a defect of forewarp; the chat goes on"
            )
            self._take(last)
        # Steering messages that came too late for the model are sent as the next turn.
        self.queued[:0] = self.steering
        self.steering.clear()
        return self._conversation.goes_on(last)


class ViewName(Static):
    """Name of a view; a click shows it."""

    def __init__(self, view: View) -> None:
        name = assemble(view.capitalize(), (f" {KEYS[view].upper()}", "dim"))
        super().__init__(name, id=f"name-{view}", classes="name", markup=False)
        self._view = view

    async def on_click(self) -> None:
        await self.run_action(f"app.view('{self._view}')")


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
        conversation: BaseConversation,
        *,
        earlier: Sequence[events.ConversationEvent] = (),
        first: str = "",
        theme: str | None = None,
        history: History | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self.conversation = conversation
        self.view: View = "chat"
        self.turns = TurnQueue(conversation, self._take, clock)
        self._earlier, self._first, self._clock = earlier, first, clock
        # It reads files: not once the screen is there, and not where something else is shown first.
        self._welcome = "" if earlier or isinstance(conversation, Replay) else welcome(conversation.settings)
        self._history = history or History()
        self._armed = float("-inf")
        self._telling: asyncio.TimerHandle | None = None
        self._changed: dict[int, ListedCandidate] = {}
        self._shown_candidates = conversation.candidates
        for each in themes.THEMES:
            self.register_theme(each)
        self.theme = themes.named(theme or "dark", self.available_themes) or themes.DARK.name

    def compose(self) -> ComposeResult:
        settings = self.conversation.settings
        self.chat = Chat(clock=self._clock, id="chat")
        self.panes = ContentSwitcher(id="panes", initial="candidates")
        self._candidates, self._source = CandidatesPane(id="candidates"), SourcePane(id="source")
        self._plots = PlotsPane(settings.place, id="plots")
        self._waiting, self._approvals = Static(id="waiting", markup=False), Approvals(id="approvals")
        box = PromptBox(settings.folder, self._history, placeholder="Ask, /command, @file", id="prompt")
        self.prompt = box.prompt
        self._status = StatusLine(clock=self._clock, id="status")
        with Horizontal(id="names"):
            yield Static(f"forewarp  {settings.folder.name or settings.folder}", id="title", markup=False)
            yield from map(ViewName, VIEWS)
        with Horizontal(id="main"):
            yield self.chat
            with self.panes:
                yield from (self._candidates, self._source, self._plots)
        yield from (self._waiting, self._approvals, box, self._status)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return the filters that every line of every widget passes on its way to the terminal."""
        return [*super().get_line_filters(), Printable()]

    def copy_to_clipboard(self, text: str) -> None:
        """Copy printable text: what is copied is pasted into other terminals."""
        super().copy_to_clipboard(printable(text))

    def on_mount(self) -> None:
        self._waiting.display = False
        self.prompt.focus()
        self._load_candidates()
        self._arrange()
        if isinstance(self.conversation, Replay):
            self._status.label = "REPLAY"
            self.chat.note(REPLAYED)
            for text in self.conversation.prompts:
                self._send(text)
        elif self._earlier:
            self._status.label = "resumed"
            self.chat.open(self._earlier)
            if (past := turns(self._earlier)) and not any(
                isinstance(e, events.Answered | events.Interrupted | events.Failed) for e in past[-1]
            ):
                self.chat.note(CUT_OFF)
        else:
            self.chat.note(self._welcome)
        self._refresh_status()
        if self._first:
            self._send(self._first)

    async def on_unmount(self) -> None:
        self.conversation.interrupt()
        self.conversation.close()

    # Events of the conversation

    def _take(self, event: events.ConversationEvent) -> None:
        self.chat.take(event, self.conversation.candidates)
        match event:
            case CandidateForecast() | CandidateMeasured():
                self._take_candidate(event)
            case events.ApprovalAsked():
                self._approvals.ask(event)
                after(self, Approvals.GRACE_S, self._offer_keys)
                if self.turns.took > LONG_TURN_S:
                    self._announce(f"{event.tool} waits for your approval")
            case events.ApprovalGiven():
                self._approvals.settle(event.call)
                self._status.message = ""
            case events.Spent() | events.SettingChanged() | events.UserSaid():
                self._refresh_status()
            case _:
                pass
        self._refresh_activity()

    def _take_candidate(self, event: CandidateForecast | CandidateMeasured) -> None:
        """Show what an event changed in the panes, with the next frame."""
        elsewhere = any(call.arguments.get("target") for call in self.chat.items.running.values())
        if isinstance(event, CandidateForecast) and not elsewhere:
            self._status.device = event.device
        if self.conversation.candidates is not self._shown_candidates:
            self._load_candidates()
        elif (row := self.conversation.candidates.of(event)) is not None:
            if not self._changed:
                after(self, FRAME_S, self._refresh_rows)
            self._changed[row.number] = row

    def _load_candidates(self) -> None:
        self._shown_candidates = self.conversation.candidates
        self._changed.clear()
        self._candidates.load(self._shown_candidates)
        self._plots.load(self._shown_candidates)

    def _refresh_rows(self) -> None:
        changed, self._changed = self._changed, {}
        self._candidates.refresh_rows(*changed.values())
        if any(row.measured for row in changed.values()):
            self._plots.refresh_plot()

    def _announce(self, text: str) -> None:
        self.bell()
        self._tell(text, 8)

    def _tell(self, text: str, for_s: float) -> None:
        """Show a message in the status line for some seconds: it covers nothing."""
        if self._telling is not None:
            self._telling.cancel()
        self._status.message = text
        self._telling = after(self, for_s, lambda: setattr(self._status, "message", ""))

    def _offer_keys(self) -> None:
        """Give a question the keys, unless something is being typed."""
        if self._approvals.current is not None and not self.prompt.whole:
            self._approvals.focus()

    # Input of the user

    @on(Prompt.Sent)
    def _sent(self, message: Prompt.Sent) -> None:
        name, _, rest = message.text.strip().partition(" ")
        match name:
            case "/theme":
                self._change_theme(rest.strip())
            case "/copy":
                self.action_copy()
            case "/clear":
                self.chat.clear()
            case "/quit":
                self._leave()
            case _ if self.turns.running and isinstance(self.conversation, Replay):
                self._tell("the replay goes on by itself; Esc stops it", AGAIN_S)
            case _:
                # A replay goes on to its end, whatever is typed.
                left = self.conversation.prompts if isinstance(self.conversation, Replay) else []
                for text in left or [message.text.strip()]:
                    self._send(text)
        self._offer_keys()

    def _send(self, text: str) -> None:
        if self.turns.send(text):
            self._run_turns()
        self.chat.action_latest()
        self._refresh_status()

    @work(group="turn")
    async def _run_turns(self) -> None:
        well = await self.turns.run()
        self._approvals.settle()
        if not well:
            self._recall()
        if self.turns.took > LONG_TURN_S:
            self._announce(f"{'done' if well else 'ended'} after {seconds(self.turns.took)}")
        if self.focused is None or not self.focused.display:
            self.prompt.focus()
        self._refresh_status()

    @on(Prompt.Key)
    async def _key_of_prompt(self, message: Prompt.Key) -> None:
        actions = {"pageup": "back", "pagedown": "page_down", "end": "latest", "ctrl+end": "latest"}
        match message.key:
            case "ctrl+u":
                self._recall()
            case "ctrl+d":
                self._leave()
            case key:
                await self.run_action(actions.get(key, "oldest"), self.chat)

    def _recall(self) -> None:
        """Put queued messages back into the prompt."""
        if waiting := self.turns.recall():
            self.prompt.fill("\n".join(part for part in (waiting, self.prompt.whole) if part))
        self._refresh_status()

    @on(Approvals.Replied)
    def _replied(self, message: Approvals.Replied) -> None:
        self.conversation.answer(message.call, message.reply, message.why)
        if self._approvals.current is None:
            self.prompt.focus()

    @on(Approvals.Typed)
    def _typed(self, message: Approvals.Typed) -> None:
        self.prompt.focus()
        self.prompt.insert(message.character)

    # Status

    def _refresh_status(self) -> None:
        lines = [f"steering: {cut(t, 200)}" for t in self.turns.steering]
        lines += [f"queued: {cut(t, 200)}" for t in self.turns.queued]
        more = [f"… {len(lines) - WAITING_SHOWN} more"] if len(lines) > WAITING_SHOWN else []
        self._waiting.display = bool(lines)
        self._waiting.update("\n".join([*lines[:WAITING_SHOWN], *more]))
        self.prompt.holding = bool(self.turns.queued)
        self._status.queued = len(lines)
        self._status.parts = parts(
            self.conversation.settings, self.conversation.spent, self.conversation.room, self._status.device
        )
        self._refresh_activity()

    def _refresh_activity(self) -> None:
        asking = self._approvals.current is not None
        self._status.since = self.turns.began
        now = activity(self.chat.items, asking=asking, summarising=self.conversation.summarising)
        self._status.activity = now if self.turns.running else ""

    @on(Chat.Behind)
    def _behind(self, message: Chat.Behind) -> None:
        self._status.behind = message.behind

    # Views

    def action_view(self, view: View) -> None:
        self.view = view
        if view == "chat":
            self._arrange()
            self.prompt.focus()
        else:
            self.panes.current = view
            self._arrange()
            self.panes.get_child_by_id(view).focus()

    def action_turn(self) -> None:
        self.action_view(VIEWS[(VIEWS.index(self.view) + 1) % len(VIEWS)])

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._arrange)

    def _arrange(self) -> None:
        narrow = self.size.width < WIDE
        self.chat.display = not narrow or self.view == "chat"
        self.panes.display = not narrow or self.view != "chat"
        shown = self.view if narrow or self.view != "chat" else self.panes.current
        for name in self.query(ViewName):
            name.set_class(name.id == f"name-{shown}", "-current")

    @on(CandidatesPane.Selected)
    def _candidate_selected(self, message: CandidatesPane.Selected) -> None:
        row, candidates = message.row, self._shown_candidates
        best = candidates.best(row.forecast.task)
        self._source.show(row, parent=candidates.parent(row), best=best)
        if not message.moved:
            self.action_view("source")

    # Keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Esc and ctrl+c to the palette while it is open."""
        if action in ("interrupt", "clear_or_leave", "turn", "view", "unfold") and len(self.screen_stack) > 1:
            return False
        return super().check_action(action, parameters)

    def action_interrupt(self) -> None:
        """End the turn at once; without one, close what is open or go back to the prompt."""
        completing = bool(self.prompt.completions)
        self.prompt.close()
        if self.turns.running:
            self._approvals.settle()
            self.conversation.interrupt()
        elif not completing:
            self.action_view("chat")

    def action_clear_or_leave(self) -> None:
        """Copy what is selected, or clear the prompt; twice in a row, leave."""
        selected = self.screen.get_selected_text() or self.prompt.selected_text
        if selected:
            self.copy_to_clipboard(selected)
            self._tell("copied", COPIED_S)
        elif self._clock() - self._armed < AGAIN_S and not self.prompt.whole.strip():
            self._leave()
        else:
            self._armed = self._clock()
            if self.prompt.whole.strip():
                self._history.add(self.prompt.whole)  # up brings it back
            self.prompt.fill("")
            self._tell("ctrl+c again leaves", AGAIN_S)

    def _leave(self) -> None:
        self.conversation.interrupt()
        self.exit(0)

    async def action_quit(self) -> None:
        self._leave()

    def action_copy(self) -> None:
        """Copy the chosen candidate's text where a pane is in sight, else the latest answer."""
        source, row = self._source.text, self._candidates.selected
        if self.view in ("source", "candidates"):
            text = source if self.view == "source" and source else row.forecast.source if row else ""
            what = "the candidate's text"
        else:
            text, what = "", ""
        text, what = (text, what) if text else (self.chat.items.last_answer, "the latest answer")
        if text:
            self.copy_to_clipboard(text)
            self._tell(f"copied {what}, {counted(len(text.splitlines()), 'line')}", COPIED_S)
        else:
            self._tell("there is nothing to copy yet", COPIED_S)

    def action_unfold(self) -> None:
        self.chat.toggle()

    def _change_theme(self, name: str) -> None:
        known = themes.named(name, self.available_themes)
        if not name:
            self.search_themes()
        elif known is None:
            self.chat.fail(f"there is no theme {name}", hint=", ".join(sorted(self.available_themes)))
        else:
            self.theme = known

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield SystemCommand("Theme", "Change the colours", self.search_themes)
        yield SystemCommand("Copy", "Copy the latest answer, or the chosen candidate's text", self.action_copy)
        yield SystemCommand("Unfold", "Unfold all tool calls, or fold them", self.action_unfold)
        for view in VIEWS:
            show = partial(self.action_view, view)
            yield SystemCommand(view.capitalize(), f"Show this pane ({KEYS[view].upper()})", show)
        yield SystemCommand("Keys", "Show the keys of what has the focus", self.action_show_help_panel)
        yield SystemCommand("Quit", "Leave; the conversation can be resumed", self._leave)


def welcome(settings: Settings) -> str:
    """Return the welcome text of a new conversation, as Markdown; it names files of the folder."""
    model = "" if settings.model is None else f" · {model_name(settings)}"
    head = f"**forewarp {forewarp.__version__}** · `{settings.folder}` · device {settings.place.device}{model}"
    problem, kernels = files_to_begin_with(settings.folder)
    if settings.model is not None:
        begin = f"Say what should become faster, such as: *Make {problem or kernels or 'softmax'} faster.*"
        return "\n\n".join([head, begin, HELP])
    works = [
        "`/demo` plays a search on measurements that were recorded on an H200: some seconds, no GPU and no key",
        f"`/search {problem or 'mine.py'} 12` makes {'it' if problem else 'a PyTorch problem of yours'} faster on this"
        " machine, with at most 12 measurements",
        *(
            [f"`/inspect {problem} {kernels} --target h100` shows what the kernels take of a card"]
            if problem and kernels
            else []
        ),
        "`/help` lists the rest: `/forecast`, `/measure`, `/tune`, …",
    ]
    return "\n\n".join([head, NO_MODEL, "\n".join(f"- {line}" for line in works), ADD_MODEL, HELP])


def _end_with_terminal() -> None:
    """Wait until the terminal is gone, then end the process: it gets SIGHUP from a terminal that controls it only."""
    watch = select.poll()
    watch.register(sys.stdin.fileno(), 0)
    if any(happened & select.POLLHUP for _, happened in watch.poll()):
        os.kill(os.getpid(), signal.SIGTERM)


def run(
    conversation: BaseConversation,
    *,
    mouse: bool = True,
    theme: str | None = None,
    first: str = "",
    earlier: Sequence[events.ConversationEvent] = (),
) -> int:
    """Open the terminal agent and return its exit code once the user leaves.

    `first` is sent at once. `earlier` are the events of a conversation that is resumed.
    """

    def prompts() -> Path:
        from forewarp.agent.transcript import home

        return home(conversation.settings.place) / "prompts.jsonl"

    signals.end_at_once(signal.SIGTERM)
    threading.Thread(target=_end_with_terminal, name="forewarp-terminal", daemon=True).start()
    app = ForewarpApp(conversation, earlier=earlier, first=first, theme=theme, history=History(prompts))
    code = app.run(mouse=mouse)
    return code if code is not None else app.return_code or 0
