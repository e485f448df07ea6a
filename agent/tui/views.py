"""Choice of the visible pane: one line of names, and the panes beside the chat."""

from __future__ import annotations

from typing import Literal, cast, get_args

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import ContentSwitcher, Static

from forewarp.agent.candidates import CandidateRow, Candidates
from forewarp.agent.tui.candidates import CandidatesPane
from forewarp.agent.tui.chat import Chat
from forewarp.agent.tui.plots import Plots
from forewarp.agent.tui.printable import assemble
from forewarp.agent.tui.source import Source
from forewarp.tools.parts import Place
from forewarp.tools.steps import CandidateForecast, CandidateMeasured

WIDE = 110
"""Columns from which on the panes stand beside the chat."""

FRAME_S = 0.1
"""Candidates that change within this time are shown together."""

View = Literal["chat", "candidates", "source", "plots"]
VIEWS: tuple[View, ...] = get_args(View)
KEYS: dict[View, str] = {view: f"f{n}" for n, view in enumerate(VIEWS, 2)}


class _Name(Static):
    """The name of a view; a click shows it."""

    class Clicked(Message):
        """The user wants this view."""

        def __init__(self, view: View) -> None:
            super().__init__()
            self.view: View = view

    def __init__(self, view: View) -> None:
        super().__init__(
            assemble(view.capitalize(), (f" {KEYS[view].upper()}", "dim")),
            id=f"name-{view}",
            classes="name",
            markup=False,
        )
        self._view: View = view

    def on_click(self) -> None:
        """Ask for the view."""
        self.post_message(self.Clicked(self._view))


class Names(Horizontal):
    """The names of all views, the one in sight marked."""

    Clicked = _Name.Clicked

    def __init__(self, title: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._title = title

    def compose(self) -> ComposeResult:
        """Yield the title and the names."""
        yield Static(self._title, id="title", markup=False)
        for view in VIEWS:
            yield _Name(view)

    def mark(self, view: View) -> None:
        """Mark the view in sight."""
        for name in self.query(_Name):
            name.set_class(name.id == f"name-{view}", "-current")


class Panes(ContentSwitcher):
    """The panes; one of them is in sight."""

    def __init__(self, place: Place, *, id: str | None = None) -> None:
        super().__init__(id=id, initial="candidates")
        self._place = place
        self._board = Candidates()
        self._changed: dict[int, CandidateRow] = {}

    def compose(self) -> ComposeResult:
        """Yield the panes."""
        yield CandidatesPane(id="candidates")
        yield Source(id="source")
        yield Plots(self._place, id="plots")

    @property
    def shown(self) -> View:
        """The pane in sight."""
        return cast("View", self.current or "candidates")

    @property
    def text(self) -> str:
        """The text of the candidate that is chosen, in full."""
        if self.current == "source" and self.query_one(Source).text:
            return self.query_one(Source).text
        row = self.query_one(CandidatesPane).selected
        return row.forecast.source if row else ""

    def load(self, board: Candidates) -> None:
        """Show this board."""
        self._board = board
        self._changed.clear()
        self.query_one(CandidatesPane).load(board)
        self.query_one(Plots).load(board)

    def take(self, board: Candidates, event: CandidateForecast | CandidateMeasured) -> None:
        """Show what an event changed on a board, with the next frame."""
        if board is not self._board:
            self.load(board)
        elif (row := board.of(event)) is not None:
            if not self._changed:
                self.set_timer(FRAME_S, self._refresh_rows)
            self._changed[row.number] = row

    def _refresh_rows(self) -> None:
        rows, self._changed = self._changed, {}
        for row in rows.values():
            self.query_one(CandidatesPane).refresh_row(row)
            self.query_one(Plots).refresh_row(row)

    @on(CandidatesPane.Selected)
    @on(CandidatesPane.Highlighted)
    def _choose(self, message: CandidatesPane.Selected | CandidatesPane.Highlighted) -> None:
        """Show the text of a candidate; who holds the panes brings it into sight."""
        row = message.row
        best = self._board.best(row.forecast.task)
        self.query_one(Source).show(row, parent=self._board.parent(row), best=best)

    def show(self, view: View) -> None:
        """Bring a pane into sight and make it answer to keys."""
        self.current = view
        match view:
            case "candidates":
                self.query_one("CandidatesPane > Table").focus()
            case "source":
                self.query_one(Source).focus()
            case _:
                self.query_one(Plots).focus()


class Views(Vertical):
    """The names of the views, and below them the chat and the panes: side by side where there is room, else one."""

    def __init__(self, title: str, chat: Chat, panes: Panes, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.current: View = "chat"
        self._title, self._chat, self._panes = title, chat, panes

    def compose(self) -> ComposeResult:
        """Yield the names, the chat and the panes."""
        yield Names(self._title, id="names")
        with Horizontal(id="main"):
            yield self._chat
            yield self._panes

    def on_mount(self) -> None:
        """Begin with the chat."""
        self._arrange()

    def on_resize(self, event: events.Resize) -> None:
        """Choose between one pane and two."""
        self.call_after_refresh(self._arrange)

    def show(self, view: View) -> None:
        """Show a pane, or the chat."""
        self.current = view
        if view != "chat":
            self._panes.display = True
            self._panes.show(view)
        self._arrange()

    @property
    def text(self) -> str:
        """The text of the chosen candidate where a pane that shows it is in sight."""
        return self._panes.text if self.current in ("source", "candidates") else ""

    @property
    def next(self) -> View:
        """The view after the current one."""
        return VIEWS[(VIEWS.index(self.current) + 1) % len(VIEWS)]

    def _arrange(self) -> None:
        narrow = self.app.size.width < WIDE
        self._chat.display = not narrow or self.current == "chat"
        self._panes.display = not narrow or self.current != "chat"
        self.query_one(Names).mark(self.current if narrow or self.current != "chat" else self._panes.shown)
